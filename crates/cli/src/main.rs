//! The `turnwright` program.

mod agent;
mod approval;
mod args;
mod chat;
mod config;
mod ctl;
mod decode;
mod demo;
mod doctor;
mod exit;
mod hooks;
mod kept;
mod keyboard;
mod memory;
mod output;
mod plan;
mod provider;
mod refusal;
mod resume;
mod run;
mod sessions;
mod signals;
mod subagents;
mod tape;
mod tools;
mod trace;
mod trail;
mod view;
mod watch;

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::{ArgMatches, CommandFactory, FromArgMatches, error::ErrorKind};

use crate::{
    agent::Purpose,
    args::{Cli, Command, ConfigCommand, Global},
    config::Config,
    output::Output,
    refusal::Refusal,
    tape::Tape,
    trace::Trace,
    trail::Trail,
};

fn main() -> ExitCode {
    let (config, broken) = match config::find() {
        Ok(config) => (config, None),
        Err(refusal) => (Config::default(), Some(refusal)),
    };
    let parse = |words: Vec<OsString>| {
        let matches = config.as_defaults(Cli::command()).get_matches_from(words);
        let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
        (cli, matches)
    };
    let (Cli { global, command }, matches) = parse(env::args_os().collect());
    // Told once it is known how: `--help` and mistakes of the command line come first.
    let done = match (broken, &command) {
        (Some(refusal), command) if !is_config_check(command.as_ref()) => Err(refusal),
        _ => dispatch(&global, command, &config, &matches, &parse),
    };
    match done {
        Ok(code) => code,
        Err(refusal) => {
            output::refuse(&refusal, global.color);
            exit::USAGE.into()
        }
    }
}

/// It tells for itself what is wrong with which file.
fn is_config_check(command: Option<&Command>) -> bool {
    matches!(command, Some(Command::Config(ConfigCommand::Check { .. })))
}

type Parse<'a> = &'a dyn Fn(Vec<OsString>) -> (Cli, ArgMatches);

fn dispatch(
    global: &Global,
    command: Option<Command>,
    config: &Config,
    matches: &ArgMatches,
    parse: Parse<'_>,
) -> Result<ExitCode, Refusal> {
    match command {
        Some(Command::Run(args)) => {
            // What may be wrong is found out before any runtime starts and while Ctrl-C still ends the program.
            let prompt = run::prompt(args.prompt)?;
            let tape = Tape::open(&args.agent)?;
            let trace = Trace::open(&args.agent, config)?;
            let store = kept::open(global, config)?;
            let (agent, agents) =
                agent::build((&args.agent, config), (&tape, &trace), store.as_ref(), Purpose::Turn)?;
            let code = block_on(async {
                let trail = Trail::begin(&args.agent, &agents);
                let code = run::turn(global, agent, store.as_ref(), args.session, prompt).await?;
                Ok(trail.end(code, global.color).await)
            });
            trace.end(global.color);
            Ok(tape.end(code?, global.color))
        }
        Some(Command::Chat(args)) => {
            let tape = Tape::open(&args.agent)?;
            let trace = Trace::open(&args.agent, config)?;
            let store = kept::open(global, config)?;
            let (agent, agents) =
                agent::build((&args.agent, config), (&tape, &trace), store.as_ref(), Purpose::Chat)?;
            let code = block_on(async {
                let trail = Trail::begin(&args.agent, &agents);
                let code = chat::run(global, agent, store.as_ref(), (&args, config)).await?;
                Ok(trail.end(code, global.color).await)
            });
            trace.end(global.color);
            Ok(tape.end(code?, global.color))
        }
        Some(Command::Resume(args)) => {
            let store = kept::existing(global, config)?;
            let tape = Tape::open(&args.agent)?;
            let trace = Trace::open(&args.agent, config)?;
            let (agent, agents) =
                agent::build((&args.agent, config), (&tape, &trace), Some(&store), Purpose::Turn)?;
            let code = block_on(async {
                let trail = Trail::begin(&args.agent, &agents);
                let code = resume::run(global, agent, &store, &args).await?;
                Ok(trail.end(code, global.color).await)
            });
            trace.end(global.color);
            Ok(tape.end(code?, global.color))
        }
        Some(Command::Sessions(command)) => block_on(sessions::run(global, config, command)),
        Some(Command::Ctl(command)) => block_on(ctl::run(global, config, command)),
        Some(Command::Store(command)) => block_on(kept::run(global, config, &command)),
        Some(Command::Decode(args)) => decode::run(global, &args),
        Some(Command::Config(ConfigCommand::Check { file })) => config::check(global, file.as_deref()),
        Some(Command::Config(ConfigCommand::Show { .. })) => {
            let options =
                matches.subcommand().and_then(|(_, config)| config.subcommand()).map(|(_, show)| show);
            let text = config::show(config, options.unwrap_or(matches), global.json);
            Ok(output::print(&text, global.color))
        }
        Some(Command::Plan(args)) => plan::show(global, &args.agent, config),
        Some(Command::Doctor(args)) => block_on(doctor::examine(global, &args.agent, config)),
        None if !provider::is_configured(config) => block_on(demo::run(global)),
        None if io::stdin().is_terminal() && io::stdout().is_terminal() => {
            // Whatever was given is for every command.
            let (Cli { global, command }, matches) = parse(env::args_os().chain(["chat".into()]).collect());
            dispatch(&global, command, config, &matches, parse)
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
