use super::*;

#[test]
fn the_installed_packages_have_the_version_and_no_path_of_this_machine() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let lib = folder.path().join("lib");
    packages(&checkout::root().join(BINDINGS).join("cmake"), &lib, "0.7.2")?;
    let mut texts = Vec::new();
    for name in ["cmake/evb/evbConfig.cmake", "cmake/evb/evbConfigVersion.cmake", "pkgconfig/evb.pc"] {
        texts.push(fs::read_to_string(lib.join(name)).with_context(|| name.to_owned())?);
    }
    assert!(texts[0].contains("CMAKE_CURRENT_LIST_DIR") && texts[0].contains(SONAME));
    assert!(texts[1].contains("\"0.7.2\"") && texts[1].contains("MINOR EQUAL 7"));
    assert!(texts[2].contains("Version: 0.7.2") && texts[2].contains("${pcfiledir}"));
    let here = folder.path().display().to_string();
    assert!(texts.iter().all(|text| !text.contains(&here) && !text.contains('@')));
    Ok(())
}

#[test]
fn links_lead_to_the_library_and_can_be_renewed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (built, lib) = (folder.path().join("built"), folder.path().join("lib"));
    fs::create_dir(&built)?;
    for name in ["libevb.so", "libevb.a"] {
        fs::write(built.join(name), name)?;
    }
    for _ in 0..2 {
        libraries(&built, &lib, "0.7.2")?;
        assert_eq!(fs::read_to_string(lib.join("libevb.so"))?, "libevb.so");
        assert_eq!(fs::read_link(lib.join(SONAME))?, Path::new("libevb.so.0.7.2"));
    }
    Ok(())
}
