//! The `turnwright` program.

mod agent;
mod approval;
mod args;
mod chat;
mod ctl;
mod decode;
mod demo;
mod doctor;
mod exit;
mod kept;
mod keyboard;
mod output;
mod plan;
mod provider;
mod refusal;
mod resume;
mod run;
mod sessions;
mod signals;
mod tape;
mod tools;
mod view;
mod watch;

use std::{
    env,
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::{
    args::{Cli, Command, Global},
    output::Output,
    refusal::Refusal,
    tape::Tape,
};

fn main() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    match dispatch(&global, command) {
        Ok(code) => code,
        Err(refusal) => {
            output::refuse(&refusal, global.color);
            exit::USAGE.into()
        }
    }
}

fn dispatch(global: &Global, command: Option<Command>) -> Result<ExitCode, Refusal> {
    match command {
        Some(Command::Run(args)) => {
            // What may be wrong is found out before any runtime starts and while Ctrl-C still ends the program.
            let prompt = run::prompt(args.prompt)?;
            let tape = Tape::open(&args.agent)?;
            let store = kept::open(global)?;
            let agent = agent::build(&args.agent, &tape, store.as_ref())?;
            let code = block_on(run::turn(global, agent, store.as_ref(), args.session, prompt))?;
            Ok(tape.end(code, global.color))
        }
        Some(Command::Chat(args)) => {
            let tape = Tape::open(&args.agent)?;
            let store = kept::open(global)?;
            let agent = agent::build(&args.agent, &tape, store.as_ref())?;
            let code = block_on(chat::run(global, agent, store.as_ref(), &args))?;
            Ok(tape.end(code, global.color))
        }
        Some(Command::Resume(args)) => {
            let store = kept::needed(global)?;
            let tape = Tape::open(&args.agent)?;
            let agent = agent::build(&args.agent, &tape, Some(&store))?;
            let code = block_on(resume::run(global, agent, &store, &args))?;
            Ok(tape.end(code, global.color))
        }
        Some(Command::Sessions(command)) => block_on(sessions::run(global, command)),
        Some(Command::Ctl(command)) => block_on(ctl::run(global, command)),
        Some(Command::Store(command)) => block_on(kept::run(global, &command)),
        Some(Command::Decode(args)) => decode::run(global, &args),
        Some(Command::Plan(args)) => plan::show(global, &args.agent),
        Some(Command::Doctor(args)) => block_on(doctor::examine(global, &args.agent)),
        None if !provider::is_configured() => block_on(demo::run(global)),
        None if io::stdin().is_terminal() && io::stdout().is_terminal() => {
            // Whatever was given is for every command.
            let Cli { global, command } = Cli::parse_from(env::args_os().chain(["chat".into()]));
            dispatch(&global, command)
        }
        None => {
            let message = "a command is needed: a provider is configured, so there is nothing to demonstrate, and `chat` \
                needs a terminal to be meant without its name";
            Cli::command().error(ErrorKind::MissingSubcommand, message).exit()
        }
    }
}

fn block_on(work: impl Future<Output = Result<ExitCode, Refusal>>) -> Result<ExitCode, Refusal> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Refusal::new(format!("the async runtime cannot be started: {e}")))?;
    let code = runtime.block_on(work);
    // A write to a pipe that nobody reads must not keep a program alive that is done.
    runtime.shutdown_background();
    code
}
