use super::glibc_of;

#[test]
fn the_glibc_of_a_wheel_is_found() {
    let said = "evb-0.1.0-cp39-abi3-manylinux_2_28_x86_64.whl is consistent with the\n\
                following platform tag: \"manylinux_2_17_x86_64\".\n\n\
                This constrains the platform tag to \"manylinux_2_17_x86_64\".";
    assert_eq!(glibc_of(said), Some(17));
    let unknown = "evb-0.1.0-cp39-abi3-linux_x86_64.whl is consistent with the\n\
                   following platform tag: \"linux_x86_64\".";
    assert_eq!(glibc_of(unknown), None);
}
