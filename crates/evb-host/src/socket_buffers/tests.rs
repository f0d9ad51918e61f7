use evb_core::units::Bytes;
use evb_net::host::{Fact, setting_number};

use super::{Asked, receive_buffer, send_buffer};

#[test]
fn buffers_end_at_the_kernels_limit() {
    for (ask, limit) in [
        (receive_buffer as fn(Bytes) -> Fact<Asked>, "net.core.rmem_max"),
        (send_buffer as fn(Bytes) -> Fact<Asked>, "net.core.wmem_max"),
    ] {
        let most: u64 = setting_number(limit, 0).unwrap();
        assert_eq!(ask(Bytes::kib(64)).unwrap().got, Bytes::kib(64).min(Bytes::new(most)));
        assert_eq!(ask(Bytes::new(most + 4096)).unwrap().got, Bytes::new(most), "{limit}");
    }
}
