use super::{Offload, Transport};

#[test]
fn words_lead_back_to_their_offload() {
    for offload in Offload::ALL {
        assert_eq!(Offload::from_word(offload.word()), Some(offload));
    }
    assert_eq!(Offload::from_word("auto"), None);
    assert_eq!(format!("{:>12}", Offload::PacingRate), " pacing-rate");
}

#[test]
fn departure_times_are_for_datagrams() {
    let tcp: Vec<_> = Offload::ALL.into_iter().filter(|offload| offload.fits(Transport::Tcp)).collect();
    assert_eq!(tcp, [Offload::Software, Offload::PacingRate, Offload::Tbf]);
    assert!(Offload::ALL.into_iter().all(|offload| offload.fits(Transport::Udp)));
}
