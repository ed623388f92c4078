//! Turns against a real model over real HTTP, held to their promises: `cargo xtask live` starts the model and runs this.
//!
//! `live BASE_URL [--json]`; the exit code is 1 when a promise broke, and standard error says which.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod answer;
mod beside;
mod call;
mod cancel;
mod model;
mod promises;
mod server;
mod table;
mod watch;

use std::process::ExitCode;

use turnwright::Session;

use self::{
    model::{Model, Wire},
    promises::Promises,
    server::Server,
    table::Row,
};

/// What every scenario works with.
struct Live {
    model: Model,
    server: Server,
    promises: Promises,
    /// Every session of the run; their histories are checked once more at its end.
    sessions: Vec<Session>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (json, base_url) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [base_url] => (false, base_url),
        [base_url, "--json"] => (true, base_url),
        _ => {
            eprintln!("Usage: live BASE_URL [--json]");
            return ExitCode::from(2);
        }
    };
    match run(base_url, json).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(base_url: &str, json: bool) -> Result<(), String> {
    let mut live = Live {
        model: Model::new(base_url, Wire::Chat)?,
        server: Server::new(base_url)?,
        promises: Promises::default(),
        sessions: Vec::new(),
    };
    let mut rows: Vec<Row> = Vec::new();
    // A scenario that could not be played to its end is a broken promise too, and the others are still tried.
    let scenarios = ["answer", "call", "cancel", "silent", "beside"];
    for (wire, name) in Wire::ALL.into_iter().flat_map(|wire| scenarios.map(|name| (wire, name))) {
        if live.model.wire != wire {
            live.model = Model::new(base_url, wire)?;
        }
        let played = match name {
            "answer" => answer::play(&mut live).await,
            "call" => call::play(&mut live).await,
            "cancel" => cancel::in_mid_stream(&mut live).await,
            "silent" => cancel::before_the_first_token(&mut live).await,
            _ => beside::play(&mut live).await,
        };
        match played {
            Ok(row) => {
                print!("{}", row.saw());
                rows.push(row);
            }
            Err(why) => live
                .promises
                .check(&format!("{} {name}: the scenario is played to its end", wire.name()), Err(why)),
        }
    }
    for session in &live.sessions {
        let verdict = turnwright::testkit::check::history(&session.messages());
        live.promises.check("at the end the history of every session is legal", verdict);
    }
    print!("\n{}", table::text(&rows));
    let concluded = live.promises.conclude();
    if json {
        println!("{}", table::json(&rows, &live.promises));
    }
    concluded
}
