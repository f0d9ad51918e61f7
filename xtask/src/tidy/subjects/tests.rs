use super::*;

#[test]
fn long_subjects_and_sentences_are_found() {
    assert_eq!(judge("abc", "Let a lone lane hold the whole budget"), []);
    assert_eq!(judge("abc", &"Word ".repeat(14)).len(), 0);
    assert!(judge("abc", &"Words ".repeat(13))[0].to_string().contains("78 columns"));
    for sentence in ["The supervisor ends", "A lane that is broken holds no slots", "What was lost is told"] {
        assert!(judge("abc", sentence)[0].to_string().contains("begins with a verb"), "{sentence}");
    }
}
