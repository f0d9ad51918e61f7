use super::*;

#[test]
fn only_mounts_of_the_run_are_its_own() {
    let mounts = "proc /proc proc rw 0 0\n/dev/loop3 /lab/8x4/disk-1 ext4 rw 0 0\ntmpfs /lab/8x4-udp/disk-1 tmpfs rw 0 0\n";
    assert_eq!(mounted_below(mounts, Path::new("/lab/8x4")), [PathBuf::from("/lab/8x4/disk-1")]);
    assert_eq!(mounted_below("", Path::new("/lab")), [] as [PathBuf; 0]);
}
