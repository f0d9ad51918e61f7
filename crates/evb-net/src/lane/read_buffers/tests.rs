use bytes::{Buf as _, BytesMut};

use super::{REST, ReadBuffers};

#[test]
fn one_buffer_serves_lanes_that_leave_little() {
    let (mut buffers, mut lanes) = (ReadBuffers::default(), vec![BytesMut::new(); 5]);
    for round in 0..3 {
        for (number, lane) in lanes.iter_mut().enumerate() {
            buffers.lend(lane);
            let is_first = (round, number) == (0, 0);
            assert!(is_first || lane.capacity() > 50_000, "the lane has no buffer");
            lane.reserve(100_000);
            lane.extend_from_slice(&[number as u8; 5000]);
            lane.advance(5000 - number);
            buffers.take_back(lane);
            assert!(lane.capacity() <= REST, "an idle lane has {} bytes", lane.capacity());
        }
    }
    for (number, lane) in lanes.iter().enumerate() {
        assert_eq!(lane[..], vec![number as u8; 3 * number][..]);
    }
}

#[test]
fn a_lane_keeps_the_buffer_of_a_long_rest() {
    let (mut buffers, mut lane) = (ReadBuffers::default(), BytesMut::new());
    buffers.lend(&mut lane);
    lane.resize(REST + 1, 7);
    let place = lane.as_ptr();
    buffers.take_back(&mut lane);
    assert_eq!((lane.as_ptr(), lane.len()), (place, REST + 1));
    assert!(buffers.spare.is_none());
}
