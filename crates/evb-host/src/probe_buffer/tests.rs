use std::{io::Write as _, net::TcpStream, thread};

use evb_core::rng::Rng;
use evb_net::clock;
use proptest::prelude::*;

use super::{
    listener::{ListenError, drops_of_port},
    search::{Rig, Share},
    sender::is_moderate,
    trace::{Trace, Train},
    wire::{Message, Numbered, Order, RECORD},
    *,
};

/// A model of the lab's switch port behind the senders' own links: a token bucket with a queue of a
/// few packets.
struct Model {
    senders: usize,
    /// Rate of every sender's link in bytes per second.
    link: f64,
    /// Rate of the port in bytes per second.
    port: f64,
    /// Number of bytes that an idle port lets through at once.
    tokens: f64,
    limit: f64,
    /// Longest delay between an arrival and its recorded time, in nanoseconds.
    late: u64,
    /// Number of datagrams that a sender sends back to back instead of evenly spaced.
    clumps: u64,
    host_drops: u64,
    rng: Rng,
    bursts: u32,
}

const FRAME: f64 = 1_514.0;
const MEGABIT: f64 = 1e6 / 8.0;

impl Model {
    fn new(limit: f64) -> Self {
        Self {
            senders: 2,
            link: 100.0 * MEGABIT,
            port: 100.0 * MEGABIT,
            tokens: 16_384.0,
            limit,
            late: 0,
            clumps: 1,
            host_drops: 0,
            rng: Rng::new(7),
            bursts: 0,
        }
    }

    /// Returns the times at which datagrams leave their sender, in the model's time, in the order
    /// of their index.
    fn departures(&mut self, share: &Share, ahead_spacing: u64, phase: u64) -> Vec<i64> {
        let order = Order {
            burst: 1,
            ahead: 12,
            count: share.count,
            start: 0,
            ahead_spacing,
            phase,
            spacing: share.spacing,
        };
        let due = |index: u32| {
            let behind = u64::from(index.saturating_sub(order.ahead));
            let first = index - (behind % self.clumps) as u32;
            order.due(if index < order.ahead { index } else { first }) as i64
        };
        (0..order.total()).map(due).collect()
    }

    /// Passes every datagram through its sender's link and through the port.
    fn carry(&mut self, trains: &mut [Train]) {
        let mut entries: Vec<(i64, usize, usize)> = Vec::new();
        for (sender, train) in trains.iter_mut().enumerate() {
            let mut free = f64::NEG_INFINITY;
            for (index, sent) in train.sent.iter().enumerate() {
                free = free.max(*sent as f64) + FRAME / self.link * 1e9;
                entries.push((free as i64, sender, index));
            }
            train.received = vec![None; train.sent.len()];
        }
        entries.sort_unstable();
        // The port is modelled as a fluid with a token bucket. `free` is the time at which the last
        // accepted datagram has left the port.
        let (mut free, mut tokens, mut before) = (0.0_f64, self.tokens, 0.0_f64);
        let mut left: std::collections::VecDeque<f64> = std::collections::VecDeque::new();
        for (at, sender, index) in entries {
            let now = at as f64;
            while left.front().is_some_and(|time| *time <= now) {
                left.pop_front();
            }
            if (left.len() + 1) as f64 * FRAME > self.limit {
                continue;
            }
            if left.is_empty() {
                tokens = (tokens + (now - before.max(free)).max(0.0) / 1e9 * self.port).min(self.tokens);
            }
            let wait = if tokens >= FRAME { 0.0 } else { (FRAME - tokens) / self.port * 1e9 };
            tokens = (tokens - FRAME).max(0.0);
            free = free.max(now) + wait;
            before = now;
            left.push_back(free);
            let noted = free as u64 + self.rng.below(self.late + 1);
            trains[sender].received[index] = Some(noted as i64);
        }
    }
}

impl Rig for Model {
    type Error = std::convert::Infallible;

    fn frame(&self) -> Bytes {
        Bytes::new(FRAME as u64)
    }

    fn senders(&self) -> usize {
        self.senders
    }

    fn burst(&mut self, shares: &[Share], ahead_spacing: u64) -> Result<Trace, Self::Error> {
        self.bursts += 1;
        let mut trains: Vec<Train> = Vec::new();
        for (sender, share) in shares.iter().enumerate() {
            let phase = ahead_spacing / 2 * sender as u64;
            let sent =
                if share.count > 0 { self.departures(share, ahead_spacing, phase) } else { Vec::new() };
            trains.push(Train { ahead: if sent.is_empty() { 0 } else { 12 }, sent, ..Train::default() });
        }
        self.carry(&mut trains);
        for (sender, train) in trains.iter_mut().enumerate() {
            // The clocks of different hosts differ by arbitrary offsets.
            let offset = 1_000_000_007 * (sender as i64 + 1);
            train.sent.iter_mut().for_each(|sent| *sent += offset);
        }
        Ok(Trace { frame: FRAME as u64, trains, host_drops: self.host_drops })
    }

    fn may_go_on(&self) -> bool {
        self.bursts < 200
    }

    fn say(&mut self, _progress: &str) {}
}

const LIMITS: Limits = Limits { burst: Bytes::mib(4), repeats: 9 };

fn found(model: &mut Model) -> SearchResult {
    match search(model, LIMITS) {
        Ok(result) => result,
        Err(never) => match never {},
    }
}

#[test]
fn the_limit_of_a_token_bucket_port_and_not_its_burst() {
    for limit in [40_960.0, 65_536.0, 131_072.0, 262_144.0] {
        for (tokens, senders) in [(1_514.0, 2), (16_384.0, 2), (16_384.0, 3), (60_000.0, 2)] {
            let result = found(&mut Model { tokens, senders, ..Model::new(limit) });
            let buffer = result.buffer().unwrap().count() as f64;
            assert!(
                (buffer - limit).abs() < 1.5 * FRAME + 0.01 * limit,
                "{limit} {tokens} {senders}: {buffer} {result:?}"
            );
            assert!(result.smallest_lossy.unwrap().count() as f64 > limit);
        }
    }
}

#[test]
fn late_notes_of_what_came_do_not_matter() {
    for late in [50_000, 400_000] {
        let result = found(&mut Model { late, ..Model::new(131_072.0) });
        let [_, counted, _] = result.spread(|estimate| estimate.counted).unwrap();
        assert!((counted / 131_072.0 - 1.0).abs() < 0.07, "{late}: {counted}");
    }
}

#[test]
fn a_senders_own_queue_is_seen() {
    let even = found(&mut Model::new(65_536.0));
    let clumped = found(&mut Model { clumps: 20, ..Model::new(65_536.0) });
    let own = |result: &SearchResult| result.spread(|estimate| estimate.own_queue).unwrap()[1];
    assert!(own(&even) < 1_000.0, "{even:?}");
    assert!(own(&clumped) > 5_000.0, "{clumped:?}");
    assert!(report::text(&clumped).contains("pace evenly"));
}

#[test]
fn what_cannot_be_overflowed_is_not_reached() {
    let alone = found(&mut Model { senders: 1, ..Model::new(65_536.0) });
    assert_eq!((alone.buffer(), alone.smallest_lossy), (None, None));
    let deep = found(&mut Model::new(8e6));
    assert_eq!(deep.buffer(), None);
    assert!(deep.largest_clean > Bytes::mib(2) && deep.most_waiting > Bytes::mib(1), "{deep:?}");
    let text = report::text(&deep);
    assert!(text.contains("not reached: the largest burst fits into the buffer"), "{text}");
    assert!(!text.contains("port_buffer = "));
    assert_eq!(report::json(&deep)["reached"], false);
}

#[test]
fn what_a_host_loses_is_not_taken_for_the_ports() {
    let mut model = Model { host_drops: 3, ..Model::new(65_536.0) };
    let result = found(&mut model);
    assert_eq!(result.buffer(), None);
    assert_eq!(
        result.not_reached,
        Some(
            "a host loses datagrams before the port does: lower its load, or raise net.core.rmem_max, then repeat"
        )
    );
    assert!(result.spoilt == 6 && model.bursts < 40, "{result:?}, {} bursts", model.bursts);
}

#[test]
fn a_trace_without_anything_says_nothing() {
    for trace in [
        Trace::default(),
        Trace { frame: 1514, trains: vec![Train::default()], host_drops: 0 },
        Trace {
            frame: 1514,
            trains: vec![Train { ahead: 2, sent: vec![0; 5], received: vec![None; 5], errors: 0 }],
            host_drops: 0,
        },
    ] {
        assert_eq!((trace.rate(), trace.estimate(&[1.0]), trace.longest_wait()), (None, None, 0.0));
    }
}

#[test]
fn the_kernels_count_of_full_sockets() {
    let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
 1234: 0100007F:1C1F 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77 2 0000000000000000 42
 1235: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 78 2 0000000000000000 5
garbled";
    assert_eq!(drops_of_port(table, 7199), 42);
    assert_eq!(drops_of_port(table, 1), 0);
}

#[test]
fn immoderate_orders_are_not_obeyed() {
    let now = clock::now().as_nanos();
    let good = Order {
        burst: 1,
        ahead: 12,
        count: 1000,
        start: now,
        ahead_spacing: 5_000_000,
        phase: 0,
        spacing: 120_000,
    };
    assert!(is_moderate(&good));
    for bad in [
        Order { count: u32::MAX, ..good },
        Order { start: now + 60_000_000_000, ..good },
        Order { ahead_spacing: u64::MAX, ..good },
        Order { spacing: 1_000_000_000, ..good },
        Order { phase: u64::MAX, ..good },
    ] {
        assert!(!is_moderate(&bad), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn records_survive_the_way(a: u32, b: u32, c: u32, d: u64, e: u64, f: u64, g: u64, port: u16) {
        for message in [
            Message::Hello,
            Message::Welcome { sender: port, port, payload: port, token: d },
            Message::Ping { nonce: d },
            Message::Pong { nonce: d, nanos: e },
            Message::Order(Order { burst: a, ahead: b, count: c, start: d, ahead_spacing: e, phase: f, spacing: g }),
            Message::Sent { burst: a, count: b, errors: c },
            Message::End { bytes: d },
        ] {
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        let numbered = Numbered { sender: port, token: d, burst: a, index: b };
        prop_assert_eq!(Numbered::decode(&numbered.encode()), Some(numbered));
    }

    #[test]
    fn garbage_is_garbage(record: [u8; RECORD], datagram in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(message) = Message::decode(&record) {
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        let _ = Numbered::decode(&datagram);
    }
}

#[test]
fn the_longest_message_fits_into_a_record() {
    let order = Order {
        burst: u32::MAX,
        ahead: u32::MAX,
        count: u32::MAX,
        start: u64::MAX,
        ahead_spacing: u64::MAX,
        phase: u64::MAX,
        spacing: u64::MAX,
    };
    let record = Message::Order(order).encode();
    assert_eq!((Message::decode(&record), record[RECORD - 1]), (Some(Message::Order(order)), b' '));
    for bad in ["", "{}", "\"hello\"", "{\"ping\":{\"nonce\":-1}}"] {
        let mut record = [b' '; RECORD];
        record[..bad.len()].copy_from_slice(bad.as_bytes());
        assert_eq!(Message::decode(&record), None, "{bad}");
    }
}

/// Returns a loopback address with a free port.
fn free_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], evb_needs::free_ports(1)[0]))
}

fn gathering(address: SocketAddr, senders: usize) -> Gathering {
    let (patience, time) = (Duration::from_secs(10), Duration::from_secs(10));
    Gathering { address, senders, mtu: 1500, patience, time }
}

/// Runs both ends over loopback, where no buffer overflows, while other programs connect to the
/// listener.
#[test]
fn loopback_is_not_reached() {
    let address = free_port();
    let senders: Vec<_> = (0..2).map(|_| thread::spawn(move || sender::send(address, None))).collect();
    let stranger = thread::spawn(move || {
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(20));
            if let Ok(mut stranger) = TcpStream::connect(address) {
                let _ = stranger.write_all(&[0x55; 4096]);
            }
        }
    });
    let mut listener = Listener::gather(gathering(address, 2), None).unwrap();
    let result = search(&mut listener, Limits { burst: Bytes::mib(1), repeats: 1 }).unwrap();
    listener.end(result.buffer());
    assert_eq!(result.buffer(), None, "{result:?}");
    for sender in senders {
        assert_eq!(sender.join().unwrap().unwrap(), Bytes::ZERO);
    }
    stranger.join().unwrap();
}

#[test]
fn a_sender_that_lies_ends_it_with_its_name() {
    let address = free_port();
    let liar = thread::spawn(move || {
        let mut control = loop {
            if let Ok(control) = TcpStream::connect(address) {
                break control;
            }
            thread::sleep(Duration::from_millis(10));
        };
        control.write_all(&Message::Hello.encode()).unwrap();
        for _ in 0..20 {
            // The lying sender answers every message with the claim to have sent four billion
            // datagrams.
            let lie = Message::Sent { burst: 1, count: u32::MAX, errors: 0 };
            let _ = control.write_all(&lie.encode());
        }
        thread::sleep(Duration::from_millis(300));
    });
    match Listener::gather(gathering(address, 1), None) {
        Err(ListenError::Confused { sender: 1, .. }) => {}
        other => panic!("{:?}", other.map(|_| ())),
    }
    liar.join().unwrap();
}

#[test]
fn who_lets_bytes_drip_holds_nobody_up() {
    let address = free_port();
    let drip = thread::spawn(move || {
        let mut control = loop {
            if let Ok(control) = TcpStream::connect(address) {
                break control;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let began = std::time::Instant::now();
        for byte in Message::Hello.encode() {
            if control.write_all(&[byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(500));
        }
        began.elapsed()
    });
    let wanted = Gathering { patience: Duration::from_millis(100), ..gathering(address, 1) };
    let began = std::time::Instant::now();
    assert!(matches!(Listener::gather(wanted, None), Err(ListenError::Alone { came: 0, .. })));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(drip.join().unwrap() < Duration::from_secs(8));
}

#[test]
fn nobody_comes() {
    let wanted = Gathering { patience: Duration::from_millis(50), ..gathering(free_port(), 2) };
    assert!(matches!(Listener::gather(wanted, None), Err(ListenError::Alone { came: 0, wanted: 2, .. })));
}

#[test]
fn addresses_as_people_write_them() {
    assert_eq!(socket_address("10.0.0.7"), "10.0.0.7:7199".parse().ok());
    assert_eq!(socket_address("10.0.0.7:80"), "10.0.0.7:80".parse().ok());
    assert_eq!(socket_address("[fd00::1]:80"), "[fd00::1]:80".parse().ok());
    assert_eq!(socket_address("fd00::1"), "[fd00::1]:7199".parse().ok());
    assert_eq!(socket_address("10.0.0.7:x"), None);
}
