use std::net::IpAddr;

use evb_core::id::{BuilderId, Peer as Role, SourceId};
use evb_net::host::route::Route;

use super::{Peer, choose, peers};

fn peer(last: u8, local: bool, roles: &[Role]) -> Peer {
    let route = Route { device: if local { 1 } else { 2 }, local, from: None };
    Peer { roles: roles.to_vec(), address: [10, 0, 0, last].into(), route: Ok(route) }
}

const SOURCE: Role = Role::Source(SourceId::new(1));
const BUILDER: Role = Role::Builder(BuilderId::new(1));

fn reached(all: Vec<Peer>, named: &[IpAddr]) -> Vec<IpAddr> {
    choose(all, named).iter().map(|peer| peer.address).collect()
}

#[test]
fn ones_own_address_counts_where_source_and_builder_speak_over_it() {
    let here = peer(1, true, &[SOURCE, Role::Supervisor]);
    let there = peer(2, false, &[BUILDER]);
    let address = |peer: &Peer| peer.address;
    assert_eq!(reached(vec![here.clone(), there.clone()], &[]), [address(&there)]);
    assert_eq!(
        reached(vec![here.clone()], &[]),
        [address(&here)],
        "without other hosts, this host itself is tested"
    );
    let both = vec![peer(1, true, &[SOURCE]), peer(3, true, &[BUILDER]), there.clone()];
    assert_eq!(reached(both.clone(), &[]), [both[2].address, both[0].address, both[1].address]);
    assert_eq!(reached(vec![here.clone(), there.clone()], &[here.address]), [there.address, here.address]);
}

#[test]
fn many_roles_are_counted() {
    let roles: Vec<Role> = (1..=22).map(|id| Role::Source(SourceId::new(id))).collect();
    assert_eq!(peer(1, true, &roles[..2]).who(), "source 1, source 2");
    assert_eq!(peer(1, true, &roles).who(), "source 1 and 21 more");
    assert_eq!(peer(1, true, &[]).who(), "named");
}

#[test]
fn a_configuration_names_its_peers() {
    let text = r#"
        [supervisor]
        listen  = "127.0.0.1:7000"
        trigger = { kind = "periodic", rate = "1 kHz" }
        [[source]]
        id    = 1
        bind  = "127.0.0.2"
        input = { kind = "generator", size = "1 kB" }
        [[builder]]
        id     = 1
        listen = "no-such-host.invalid:7101"
        sink   = "null"
        [security]
        mode = "none"
    "#;
    let config = evb_config::read(text, "test").expect("a configuration").config;
    let found = peers(Some(&config), &[]);
    assert_eq!(found.here, [Role::Supervisor, SOURCE]);
    assert_eq!(found.unresolved.len(), 1, "{:?}", found.unresolved);
    assert_eq!(found.unresolved[0].0, "no-such-host.invalid");
}
