//! Makes the generated code anew and fails when the one that is checked in differs.
//!
//! `SANDBOXD_WRITE_GENERATED=1 cargo test -p sandboxd-proto --test bootstrap` (`make proto`)
//! writes it instead.

use std::path::Path;

#[test]
fn generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let protos = root.join("../../../proto");
    let files = ["connection", "exec", "files", "sandboxes"]
        .map(|name| protos.join(format!("sandboxd/agent/v1/{name}.proto")));
    let descriptors = protox::compile(files, [&protos]).expect("the protos compile");
    let fresh = tempfile::tempdir().expect("a temporary folder");
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .client_mod_attribute(".", "#[cfg(feature = \"grpc\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"grpc\")]")
        .out_dir(fresh.path())
        .compile_fds(descriptors)
        .expect("code can be made");

    let name = "sandboxd.agent.v1.rs";
    let made = std::fs::read_to_string(fresh.path().join(name)).expect("code was made");
    let checked_in = root.join("src/gen").join(name);
    if std::env::var_os("SANDBOXD_WRITE_GENERATED").is_some() {
        std::fs::write(&checked_in, &made).expect("the folder can be written");
    }
    let current = std::fs::read_to_string(&checked_in).unwrap_or_default();
    assert!(current == made, "{} is out of date: run `make proto`", checked_in.display());
}
