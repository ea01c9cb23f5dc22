//! Which profiles there are, and which of them a user gets.

use super::*;

#[test]
fn an_unknown_profile_is_refused_with_the_list_and_the_nearest() {
    let catalog = Catalog::builtin();
    let error = catalog.check(&spec("h20"), &site(&[])).unwrap_err();
    assert_eq!(error.to_string(), "unknown profile `h20`");
    let help = error.help().unwrap();
    assert!(help.starts_with("did you mean `h200`? installed: ") && help.contains("base, "), "{help}");
    assert_eq!(catalog.check(&spec("h200+rose"), &site(&[])).unwrap_err().to_string(), "unknown profile `rose`");
    for fine in ["h200", "auto", "off", "list"] {
        catalog.check(&spec(fine), &site(&[])).unwrap();
    }
}

#[test]
fn a_broken_file_in_the_place_of_a_built_in_profile_is_found_by_all_that_inherit_it() {
    let dir = TempDir::new("profiles-parent");
    dir.write("mine.toml", "inherits = \"h200\"");
    let (catalog, _) = Catalog::load(dir.path());
    for fine in ["h200+ib", "mine", "mine+ib"] {
        catalog.check(&spec(fine), &site(&[])).unwrap();
    }
    dir.write("base.toml", "description = 3");
    let (catalog, _) = Catalog::load(dir.path());
    for broken in ["base", "h200", "mine", "classic+base"] {
        catalog.check(&spec(broken), &site(&[])).expect_err(broken);
    }
    catalog.check(&spec("classic"), &site(&[])).unwrap();
}

#[test]
fn a_directory_wins_over_what_is_built_in_and_a_missing_one_is_no_fault() {
    let dir = TempDir::new("profiles");
    let (catalog, notices) = Catalog::load(&dir.path().join("none"));
    assert!(notices.is_empty() && catalog.get("h200").unwrap().source().builtin);
    let file = dir.write("h200.toml", "description = \"ours\"");
    dir.write("Bad Name.toml", "");
    dir.write("notes.txt", "");
    let (catalog, notices) = Catalog::load(dir.path());
    assert_eq!(catalog.profile("h200").unwrap().description, "ours");
    assert_eq!(*catalog.get("h200").unwrap().source(), Source::file(&file));
    assert_eq!(notices.len(), 1);
    assert!(notices[0].message.ends_with("`Bad Name` cannot be the name of a profile"), "{notices:?}");
}

#[test]
fn a_file_that_others_can_write_hides_the_built_in_one_and_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new("profiles-open");
    let file = dir.write("h200.toml", "");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    dir.write("latin.toml", "");
    std::fs::write(dir.path().join("latin.toml"), b"description = \"\xe9\"").unwrap();
    let (catalog, _) = Catalog::load(dir.path());
    let error = catalog.resolve(&spec("h200"), &site(&[]), &h200(1)).unwrap_err();
    assert_eq!(error.to_string(), "profile `h200` is not used");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, format!("`{}` can be written by others (mode 0666)", file.display()));
    assert_eq!(error.help().unwrap(), format!("chmod go-w `{}`", file.display()));
    let latin = dir.path().join("latin.toml");
    let error = catalog.profile("latin").unwrap_err().to_string();
    assert_eq!(error, format!("profile `latin` is not used: `{}` is not UTF-8", latin.display()));
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (catalog, notices) = Catalog::load(dir.path());
    assert!(catalog.get("h200").unwrap().source().builtin);
    assert!(notices[0].message.starts_with("only built-in profiles are used: "), "{notices:?}");
}

#[test]
fn a_broken_file_of_the_admins_is_not_replaced_by_the_built_in_one() {
    let catalog = catalog(&[("h200", "[bind]\ncpu = 1")]);
    let error = catalog.resolve(&spec("h200"), &site(&[]), &h200(1)).unwrap_err();
    assert_eq!(error.to_string(), "profile `h200` is not used: h200.toml:2:7: expected a string, found `1`");
}

#[test]
fn only_what_is_allowed_can_be_named_and_the_admins_own_words_always_can() {
    let catalog = Catalog::builtin();
    let site = site(&["allow=h100", "default=h200+classic", "fabric=base"]);
    for fine in ["h100", "h200", "h200+classic", "off", "h100+base", "h100+h200"] {
        catalog.check(&spec(fine), &site).unwrap();
        catalog.resolve(&spec(fine), &site, &h200(1)).unwrap();
    }
    // The admin's layers in the profile's place would be a way round the profile.
    for refused in ["classic", "base", "base+h200"] {
        let error = catalog.resolve(&spec(refused), &site, &h200(1)).expect_err(refused);
        assert!(matches!(error, ProfileError::NotAllowed { .. }), "{error}");
    }
    let offered: Vec<_> = catalog.offered(&site).map(|(name, usable)| (name, usable.is_ok())).collect();
    assert_eq!(offered, [("base", true), ("classic", true), ("h100", true), ("h200", true)]);
    let strict = SiteConfig { default: None, fabric: None, ..site.clone() };
    for refused in ["auto", "h200", "h100+classic", "base"] {
        let error = catalog.check(&spec(refused), &strict).expect_err(refused);
        assert!(matches!(error, ProfileError::NotAllowed { .. }), "{error}");
    }
    let error = catalog.resolve(&spec("auto"), &site, &h200(1)).unwrap_err();
    assert_eq!(error.to_string(), "profile `auto` is not allowed on this cluster");
    assert_eq!(error.help().unwrap(), "allowed: h100");
}

#[test]
fn what_is_locked_is_as_the_default_says_and_the_user_hears_it() {
    let catalog = Catalog::builtin();
    let locked =
        |words: &[&str], option: &str| catalog.resolve(&spec(option), &site(words), &h200(1)).unwrap().unwrap();
    let resolved = locked(&["lock=bind,env,dry-run"], "h200,bind=off,env=off,dry-run,mem=off");
    assert_eq!((resolved.binding.cpu, resolved.binding.mem), (CpuPolicy::Exclusive, MemPolicy::Off));
    assert!(!resolved.env.is_empty() && !resolved.dry_run && resolved.verbose);
    assert_eq!(
        messages(&resolved),
        [
            "`bind=` is ignored: this cluster has locked it",
            "`env=off` is ignored: this cluster has locked it",
            "`dry-run` is ignored: this cluster has locked it"
        ]
    );
    let resolved = locked(&["default=h200,bind=numa", "lock=bind"], "h200");
    assert_eq!(resolved.binding.cpu, CpuPolicy::Numa, "a locked key keeps what the default says");
    assert!(resolved.notices.is_empty(), "nothing was asked for in vain");
    let resolved = locked(&["default=h200+base", "lock=profile,layers"], "h100+classic,mem=off");
    assert_eq!(resolved.name, "h200+base");
    assert_eq!(resolved.binding.mem, MemPolicy::Off);
    assert_eq!(resolved.notices.len(), 2);
}

#[test]
fn a_locked_off_cannot_be_had_by_any_other_word() {
    let catalog = Catalog::builtin();
    let site = site(&["default=h200", "lock=off", "allow=h100"]);
    for trick in ["off", "nosuch", "classic", "h100+nosuch", "h200,dry-run"] {
        let resolved = catalog.resolve(&spec(trick), &site, &h200(1)).unwrap().expect(trick);
        assert_eq!(resolved.name, "h200", "{trick}");
        assert!(!resolved.dry_run);
        assert_eq!(resolved.notices.len(), 1, "{trick}: {:?}", resolved.notices);
    }
}

#[test]
fn imported_settings_stand_below_the_profiles_own_and_change_with_their_file() {
    let dir = TempDir::new("profiles-import");
    let vendor = dir.write("vendor/env.sh", "export NCCL_CROSS_NIC=0\nexport NCCL_IB_TC=52\n");
    let text = format!("import = \"{}\"\n[env]\nNCCL_IB_TC = \"41\"\n", vendor.display());
    dir.write("profiles/p.toml", &text);
    let profiles = dir.path().join("profiles");
    let now = || {
        let (catalog, _) = Catalog::load(&profiles);
        let resolved = catalog.resolve(&spec("p"), &site(&[]), &h200(1));
        resolved.map(|resolved| (values(resolved.as_ref().unwrap()), resolved.unwrap()))
    };
    let (values, resolved) = now().unwrap();
    assert_eq!(values, ["NCCL_CROSS_NIC=0", "NCCL_IB_TC=41"]);
    assert_eq!(resolved.env[0].origin.to_string(), format!("{}:1", vendor.display()));
    dir.write("vendor/env.sh", "NCCL_CROSS_NIC=2\n");
    assert_eq!(now().unwrap().0, ["NCCL_CROSS_NIC=2", "NCCL_IB_TC=41"], "a driver update needs no new profile");
    std::fs::remove_file(&vendor).unwrap();
    let (values, resolved) = now().unwrap();
    assert_eq!(values, ["NCCL_IB_TC=41"]);
    assert!(messages(&resolved)[0].contains(":1:1: nothing is imported: cannot read"), "{:?}", resolved.notices);
}

#[test]
fn what_others_can_write_is_not_imported_and_the_profile_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new("profiles-import-open");
    let vendor = dir.write("env.sh", "NCCL_CROSS_NIC=0\n");
    std::fs::set_permissions(&vendor, std::fs::Permissions::from_mode(0o666)).unwrap();
    let text = format!("import = \"{}\"\n", vendor.display());
    let error = catalog(&[("p", &text)]).resolve(&spec("p"), &site(&[]), &h200(1)).unwrap_err();
    let reason = format!("nothing is imported: `{}` can be written by others (mode 0666)", vendor.display());
    assert_eq!(error.to_string(), format!("profile `p` is not used: p.toml:1:1: {reason}"));
}
