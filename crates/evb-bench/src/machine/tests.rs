use super::{Machine, load, processor};

#[test]
fn facts_are_read_from_the_kernels_texts() {
    let text = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU @ 2.90GHz\nflags\t: a b\n";
    assert_eq!(processor(text).as_deref(), Some("Some CPU @ 2.90GHz"));
    assert_eq!((processor("flags : a"), processor("model name :")), (None, None));
    assert_eq!(load("0.52 0.58 0.59 1/467 12345\n"), Some([0.52, 0.58, 0.59]));
    assert_eq!((load("0.52 0.58"), load("a b c")), (None, None));
}

#[test]
#[cfg(target_os = "linux")]
fn this_machine_is_known_and_its_device_is_that_of_the_route() {
    let machine = Machine::read(None);
    assert!(machine.kernel.is_some() && machine.load_average.is_some(), "{machine:?}");
    assert!(machine.cores.is_some_and(|cores| cores > 0), "{machine:?}");
    assert_eq!(machine.device.as_deref(), Some("lo"), "{machine:?}");
    assert!(machine.mtu.is_some_and(|mtu| mtu >= 1280), "{machine:?}");
    let routed = Machine::read(Some([127, 0, 0, 1].into()));
    assert_eq!((routed.device, routed.mtu), (machine.device, machine.mtu));
}
