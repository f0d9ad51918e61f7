use super::*;

#[tokio::test]
async fn the_next_input_of_a_source_waits_for_the_end_of_the_last_one() {
    let inputs = Inputs::default();
    let [one, two] = [1, 2].map(SourceId::new);
    let last = inputs.succeed(one).await;
    let _other = inputs.succeed(two).await;
    let waiting = inputs.clone();
    let next = tokio::spawn(async move { waiting.succeed(one).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!next.is_finished());
    drop(last);
    timeout(LAST_ENDS / 2, next).await.unwrap().unwrap();
}
