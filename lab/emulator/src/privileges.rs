//! Tests that need privileges get them lent where the user has none.

use std::process::Command;

/// Runs a test, called `name` as its program knows it, with the privileges that namespaces need:
/// root's, or those that a user namespace lends to a second process of the same program.
///
/// # Panics
/// If the test fails there, or if no user namespace can be had.
pub fn with_privileges(name: &str, test: impl FnOnce()) {
    if rustix::process::geteuid().is_root() {
        return test();
    }
    let own = std::env::current_exe().expect("a running program has a path");
    let lent = Command::new("unshare")
        .args(["--user", "--map-root-user", "--kill-child", "--fork"])
        .arg(own)
        .args(["--exact", name, "--nocapture"])
        .status()
        .expect("unshare is part of util-linux");
    assert!(lent.success(), "{name} failed with lent privileges");
}
