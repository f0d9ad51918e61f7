use super::{Ancillary, HEADER, aligned};

fn list<const N: usize>(ancillary: &Ancillary<N>) -> Vec<(i32, i32, Vec<u8>)> {
    let mut found = Vec::new();
    ancillary.each(|level, kind, data| found.push((level, kind, data.to_vec())));
    found
}

#[test]
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn ancillary_data_is_laid_out_as_the_system_wants_it() {
    let mut ancillary = Ancillary::<64>::new();
    assert!(ancillary.push(17, 103, &1448u16.to_ne_bytes()));
    let first = ancillary.length;
    assert!(ancillary.push(1, 61, &0x0102_0304_0506_0708_u64.to_ne_bytes()));
    // SAFETY: these three functions only calculate lengths.
    let (segment, txtime, data) = unsafe { (libc::CMSG_SPACE(2), libc::CMSG_SPACE(8), libc::CMSG_LEN(0)) };
    assert_eq!(first, segment as usize);
    assert_eq!(ancillary.length, (segment + txtime) as usize);
    assert_eq!(HEADER, data as usize);
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = ancillary.bytes.as_mut_ptr().cast();
    message.msg_controllen = ancillary.length as _;
    // SAFETY: `ancillary` outlives `message`, and the operating system's macros stay within the
    // given length.
    let (one, two, end) = unsafe {
        let one = libc::CMSG_FIRSTHDR(&raw const message);
        let two = libc::CMSG_NXTHDR(&raw const message, one);
        (*one, *two, libc::CMSG_NXTHDR(&raw const message, two))
    };
    assert_eq!((one.cmsg_level, one.cmsg_type, one.cmsg_len), (17, 103, HEADER + 2));
    assert_eq!((two.cmsg_level, two.cmsg_type, two.cmsg_len), (1, 61, HEADER + 8));
    assert!(end.is_null());
}

#[test]
fn what_is_written_is_read_and_what_does_not_fit_is_refused() {
    let mut ancillary = Ancillary::<64>::new();
    assert!(ancillary.push(17, 103, &[1, 2]));
    assert!(ancillary.push(1, 61, &[3; 8]));
    assert!(!ancillary.push(1, 62, &[4; 8]));
    assert_eq!(list(&ancillary), [(17, 103, vec![1, 2]), (1, 61, vec![3; 8])]);
}

#[test]
fn malformed_lengths_end_the_walk() {
    for length in [0, 1, HEADER - 1, HEADER + 100, usize::MAX] {
        let mut ancillary = Ancillary::<64>::new();
        assert!(ancillary.push(17, 103, &[1, 2]));
        ancillary.bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(list(&ancillary), [], "{length}");
    }
}

#[test]
fn the_next_message_begins_at_a_whole_word() {
    assert_eq!(aligned(HEADER + 2), HEADER + size_of::<usize>());
    assert_eq!(aligned(HEADER), HEADER);
}
