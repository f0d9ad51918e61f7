use std::{
    net::{TcpListener, TcpStream},
    os::fd::AsFd as _,
};

use super::*;

#[test]
fn a_grant_is_followed_to_the_write_of_its_first_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut answers = AnswerSampler::of(stream.as_fd());
    let mut begun = 0;
    while begun == 0 {
        begun += u32::from(answers.is_due());
        if answers.is_due() {
            answers.begin_read(stream.as_fd());
        }
        answers.count();
    }
    assert_eq!(answers.note_grant(1000), None, "nothing is there, so nothing has waited");
    answers.note_written(1000);
    assert_eq!(answers.take(), None, "what was granted before");
    answers.note_written(1001);
    assert!(answers.take().is_some());
    assert_eq!(answers.take(), None, "once");

    // A measured read that brings no grant ends its measurement, so the next grant is not measured.
    answers.begin_read(stream.as_fd());
    answers.end_read();
    answers.note_grant(2000);
    answers.note_written(3000);
    assert_eq!(answers.take(), None);
}
