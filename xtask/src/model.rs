//! The model check: our latch, races and queues, in every interleaving of a few threads.

use std::process::ExitCode;

use crate::{
    process::{cargo, run},
    workspace,
};

/// The flag that puts the checker's locks in the place of ours.
const FLAG: &str = "--cfg turnwright_model";

pub(crate) fn main() -> ExitCode {
    match check() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Builds apart from everything else, since the flag is for all crates.
pub(crate) fn check() -> Result<(), String> {
    let packages = ["turnwright-core", "turnwright-control", "turnwright-react-runtime"];
    let mut args = vec!["test", "--locked", "--lib"];
    for package in packages {
        args.extend(["-p", package]);
    }
    args.push("model::");
    let mut command = cargo(&args);
    command.env("RUSTFLAGS", FLAG).env("CARGO_TARGET_DIR", workspace::root().join("target/model"));
    run(&mut command)
}
