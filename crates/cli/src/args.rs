//! The command line.

mod stored;

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{FalseyValueParser, PossibleValuesParser},
};
use turnwright::{SessionId, trace_spans::Tier};

pub(crate) use stored::{CtlCommand, SessionsCommand, StoreCommand, WaitArgs};

use crate::{decode, exit, trace};

const ENVIRONMENT: &str = "\
Environment:
  OPENAI_API_KEY     the key of OpenAI, sent to the base URL
  OPENAI_BASE_URL    the base URL, where --base-url is not given; a server of your own needs no key
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL         the same for --provider anthropic
  GEMINI_API_KEY (or GOOGLE_API_KEY), GOOGLE_GEMINI_BASE_URL          for gemini
  OLLAMA_HOST, OLLAMA_API_KEY                   for ollama, which needs neither
  AWS_BEARER_TOKEN_BEDROCK, AWS_REGION (or AWS_DEFAULT_REGION,
  or AWS_ENDPOINT_URL_BEDROCK_RUNTIME)          for bedrock
  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY  the way to servers elsewhere
  NO_COLOR           no colour, unless --color says otherwise
  TURNWRIGHT_*       every option, as shown beside it; the command line wins";

/// Runs turns of an LLM agent.
///
/// Without a command it demonstrates itself with a recorded model when no provider is configured: no key and no network
/// are needed. With a provider it is `chat` on a terminal.
#[derive(Debug, Parser)]
#[command(name = "turnwright", version, disable_help_subcommand = true, max_term_width = 100, after_help = after_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command has.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print events as JSON, one object a line, and nothing else on standard output.
    ///
    /// The last line of a turn is always, and only once, `turn_finished`. A mistake that keeps the turn from starting
    /// prints no line. `plan`, `doctor` and `config` print one object.
    #[arg(long, global = true, env = "TURNWRIGHT_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
    /// When to use colour: `auto` means on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", env = "TURNWRIGHT_COLOR")]
    pub(crate) color: ColorWhen,
    /// The file sessions are kept in, made where there is none; `none` keeps them in memory, and they end with the
    /// program.
    ///
    /// By default turnwright/turnwright.db below XDG_STATE_HOME, or below .local/state of HOME. Whoever can read the file
    /// can read the conversations.
    #[arg(long, global = true, value_name = "PATH", env = "TURNWRIGHT_STORE")]
    pub(crate) store: Option<PathBuf>,
    /// The configuration; ./turnwright.toml where there is one. The environment and the command line win over it.
    #[arg(long, global = true, value_name = "FILE", env = "TURNWRIGHT_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one turn: work a prompt through to an answer.
    ///
    /// The answer goes to standard output as it comes; reasoning, tool calls, usage and errors go to standard error. The
    /// model may use tools: read_file, list_dir and search below --tool-root, and current_time. It may ask for
    /// write_file and edit_file below --tool-root, and for shell, which runs commands there: you are asked about each
    /// call of these, unless --allow lets it run. Where standard input or standard error is no terminal, and with --json,
    /// the turn ends as suspended and nothing of such a call runs. Ctrl-C cancels the turn, a second one drops its work
    /// at once, a third one leaves the program.
    #[command(after_help = after_help())]
    Run(RunArgs),
    /// Hold a conversation: turns of one session, one after the other.
    ///
    /// On a terminal there is a line editor; a line that ends in a backslash goes on. Ctrl-C cancels the turn and keeps
    /// the session, at the prompt two of them leave, Ctrl-D leaves as well. /help lists the commands. In a pipe each line
    /// is a message or a command; answers go to standard output and all else to standard error; the exit code is that of
    /// the last turn. Tools that change something are asked about first: answer y or n.
    #[command(after_help = after_help())]
    Chat(ChatArgs),
    /// Go on with a turn that waits, was stopped at a step boundary, or whose process died: the next leg runs here.
    ///
    /// Decisions come first: --approve, --deny and --edit, and on a terminal you are asked about what is left. Where
    /// nobody can be asked, it prints what waits and exits with 3. A call that was started before the process died, and
    /// whose result nobody knows, does not run again unless its tool allows that; the model is told.
    #[command(after_help = after_help())]
    Resume(ResumeArgs),
    /// Look at stored sessions: list, show, fork, export, import, delete.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Tell the process that runs a session: stop, pause, steer, say; or decide about its calls: approve, deny.
    ///
    /// Exits with 0 when it took effect, or is a message that waits; with 1 when it did not, or nobody took it in time. A
    /// message that nobody takes waits for the next turn; a stop or pause ends by itself after five minutes.
    #[command(subcommand)]
    Ctl(CtlCommand),
    /// Check the file sessions are kept in.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Check the configuration, or show what counts and where it comes from.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show what an agent with these options has: tools, interceptors, hooks, limits. Asks no model and needs none.
    #[command(after_help = after_help())]
    Plan(PlanArgs),
    /// Check what a turn needs, and what is there: providers, local servers, terminal, tool root.
    ///
    /// Exits with 0 when a turn could run and with 1 when something keeps it from running. Prints no secret.
    #[command(after_help = after_help())]
    Doctor(DoctorArgs),
    /// Decode a recorded body: print its events, one JSON object a line, or with --assemble the answer they make.
    ///
    /// It reads what `--record` wrote, the head or the body, and then knows format and status; or any body. No network.
    /// Exits with 0 when the answer is finished, with 1 when it failed on the wire, with 5 when it is truncated, and with
    /// 2 when there is nothing to decode.
    #[command(after_help = after_help())]
    Decode(DecodeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// The file; `-`, or none, reads standard input.
    pub(crate) file: Option<PathBuf>,
    /// The format; by default that of the recording, else what the first events look like.
    #[arg(long, value_name = "NAME", default_value = "auto", env = "TURNWRIGHT_FORMAT", value_parser = PossibleValuesParser::new(decode::names()))]
    pub(crate) format: String,
    /// The HTTP status the body came with: other than 2xx it is an error and no answer. 200 by default, or that of the
    /// recording.
    #[arg(long, value_name = "N", env = "TURNWRIGHT_HTTP_STATUS", value_parser = clap::value_parser!(u16).range(100..600))]
    pub(crate) http_status: Option<u16>,
    /// Print one object: the answer put together.
    #[arg(long, env = "TURNWRIGHT_ASSEMBLE", value_parser = FalseyValueParser::new())]
    pub(crate) assemble: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Show reasoning whole and not as one line with a count; /thoughts changes it.
    #[arg(long, env = "TURNWRIGHT_THOUGHTS", value_parser = FalseyValueParser::new())]
    pub(crate) thoughts: bool,
    /// Go on with the session of this id, or begin it; a fresh one by default.
    #[arg(long, value_name = "ID", env = "TURNWRIGHT_SESSION")]
    pub(crate) session: Option<SessionId>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to ask; `-` reads it from standard input.
    pub(crate) prompt: String,
    /// Go on with the session of this id, or begin it; a fresh one by default.
    #[arg(long, value_name = "ID", env = "TURNWRIGHT_SESSION")]
    pub(crate) session: Option<SessionId>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The session.
    pub(crate) session: SessionId,
    /// Let this call run, or with `all` every one that waits. Repeat it for more.
    #[arg(long, value_name = "CALL|all")]
    pub(crate) approve: Vec<String>,
    /// Do not let this call run, or with `all` every one that waits. Repeat it for more.
    #[arg(long, value_name = "CALL|all", group = "ends")]
    pub(crate) deny: Vec<String>,
    /// Why they are denied; the model is told. With --cancel why it ends.
    #[arg(long, value_name = "TEXT", requires = "ends")]
    pub(crate) reason: Option<String>,
    /// Let a call run with these arguments in place of its own: they are looked at again first.
    #[arg(long, value_name = "CALL=JSON")]
    pub(crate) edit: Vec<String>,
    /// End the turn as cancelled in place of going on: no model is asked, and what was said stays.
    #[arg(long, group = "ends", conflicts_with_all = ["approve", "deny", "edit"])]
    pub(crate) cancel: bool,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a file, and tell everything that is wrong with it, with line and key. Exits with 2 when there is something.
    Check {
        /// The file; by default the one that would be used.
        file: Option<PathBuf>,
    },
    /// Show every key, its value and where that comes from: an option, the environment, the file, or what is built in.
    Show {
        #[command(flatten)]
        agent: Box<AgentArgs>,
    },
}

/// What an agent is made of.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Agent options")]
pub(crate) struct AgentArgs {
    /// Which API to speak.
    #[arg(long, value_name = "NAME", default_value = "openai", env = "TURNWRIGHT_PROVIDER")]
    pub(crate) provider: ProviderName,
    /// The server, up to and without what the API adds (`/chat/completions`, `/responses`, `/messages`), for example
    /// http://127.0.0.1:8080/v1; by default as the environment says, else the provider's own.
    #[arg(long, value_name = "URL", env = "TURNWRIGHT_BASE_URL", hide_env_values = true)]
    pub(crate) base_url: Option<String>,
    /// The model, by the provider's name for it. There is no default.
    #[arg(long, value_name = "NAME", env = "TURNWRIGHT_MODEL")]
    pub(crate) model: Option<String>,
    /// The directory whose files the tools may read and, once approved, change.
    ///
    /// They cannot leave it, but for shell: its commands begin there and may do whatever you may.
    #[arg(long, value_name = "DIR", default_value = ".", env = "TURNWRIGHT_TOOL_ROOT")]
    pub(crate) tool_root: PathBuf,
    /// Let these tools run without asking: write_file, edit_file, shell. Repeat it or separate them by commas.
    ///
    /// `shell` runs any command with your rights: it can do anything you can, outside of the tool root too. There is no
    /// word for all of them.
    #[arg(long, value_name = "TOOL", value_delimiter = ',', env = "TURNWRIGHT_ALLOW")]
    pub(crate) allow: Vec<String>,
    /// How many times the model may be asked.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..), env = "TURNWRIGHT_MAX_ITERATIONS")]
    pub(crate) max_iterations: u32,
    /// How long the turn may take; one hour by default.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, env = "TURNWRIGHT_DEADLINE")]
    pub(crate) deadline: Option<Duration>,
    /// How many tokens the turn may use, in and out, over all its legs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), env = "TURNWRIGHT_BUDGET_TOKENS")]
    pub(crate) budget_tokens: Option<u64>,
    /// How much the turn may cost, in US dollars; the price of the model must be known.
    #[arg(long, value_name = "USD", value_parser = dollars, env = "TURNWRIGHT_BUDGET_COST")]
    pub(crate) budget_cost: Option<u64>,
    /// How many tool calls the turn may make.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), env = "TURNWRIGHT_BUDGET_TOOL_CALLS")]
    pub(crate) budget_tool_calls: Option<u64>,
    /// Write every exchange with the model into this directory, without keys; numbers go on where there are some.
    ///
    /// `plan` and `doctor` make no use of this option and the next one.
    #[arg(long, value_name = "DIR", conflicts_with = "replay", env = "TURNWRIGHT_RECORD")]
    pub(crate) record: Option<PathBuf>,
    /// Answer from what --record wrote into this directory, without key and network. The tools run all the same.
    #[arg(long, value_name = "DIR", env = "TURNWRIGHT_REPLAY")]
    pub(crate) replay: Option<PathBuf>,
    /// Write what the session does, with all content, as a trajectory in the format ATIF into this directory, a file a session.
    ///
    /// `plan` and `doctor` make no use of it.
    #[arg(long, value_name = "DIR", env = "TURNWRIGHT_TRAJECTORY")]
    pub(crate) trajectory: Option<PathBuf>,
    /// Send traces of the turns to this server, by OTLP over HTTP, for example http://localhost:4318. What was said is not
    /// in them. The variables of OpenTelemetry say the rest: headers, service name, sampler.
    ///
    /// `plan` and `doctor` make no use of this option and the next one.
    #[arg(long, value_name = "URL", env = "TURNWRIGHT_OTLP", hide_env_values = true)]
    pub(crate) otlp: Option<String>,
    /// How much is traced: legs; model calls, tools and approvals too; iterations too.
    #[arg(long, value_name = "minimal|standard|full", default_value = "standard", value_parser = trace::tier, env = "TURNWRIGHT_TRACE_TIER")]
    pub(crate) trace_tier: Tier,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) timeouts: TimeoutArgs,
}

/// The key of the provider where no variable holds it, and whom to trust.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyArgs {
    /// The file the key is in, read for each call. It wins over a variable.
    #[arg(long, value_name = "FILE", env = "TURNWRIGHT_API_KEY_FILE", conflicts_with = "api_key_command")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// A command of the shell that prints the key. It runs when a call needs the key, every five minutes at most.
    #[arg(long, value_name = "COMMAND", env = "TURNWRIGHT_API_KEY_COMMAND", hide_env_values = true)]
    pub(crate) api_key_command: Option<String>,
    /// Certificates in PEM form to trust beside those of the system.
    #[arg(long, value_name = "FILE", env = "TURNWRIGHT_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// How long a provider may take.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Timeouts of a model call")]
pub(crate) struct TimeoutArgs {
    /// To connect; 10 by default.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, env = "TURNWRIGHT_TIMEOUT_CONNECT")]
    pub(crate) timeout_connect: Option<Duration>,
    /// To the first byte of the answer; 120 by default.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, env = "TURNWRIGHT_TIMEOUT_FIRST_BYTE")]
    pub(crate) timeout_first_byte: Option<Duration>,
    /// Between two bytes of the answer; 60 by default.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, env = "TURNWRIGHT_TIMEOUT_IDLE")]
    pub(crate) timeout_idle: Option<Duration>,
    /// For the whole call; 600 by default.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, env = "TURNWRIGHT_TIMEOUT_TOTAL")]
    pub(crate) timeout_total: Option<Duration>,
}

/// The APIs that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProviderName {
    /// Chat completions: OpenAI and the many servers compatible with it.
    Openai,
    /// Responses: OpenAI, and servers compatible with it.
    OpenaiResponses,
    /// Anthropic's Messages, and servers compatible with them.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama, by its own API.
    Ollama,
    /// Bedrock's ConverseStream.
    Bedrock,
}

/// No limit may lie beyond what clocks can add to now.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.trim().parse().map_err(|_| "give a number of seconds, for example 30 or 0.5")?;
    let duration = Duration::try_from_secs_f64(number).map_err(|_| "give a positive number of seconds")?;
    match duration {
        Duration::ZERO => Err("give more than no time".into()),
        d if d > LONGEST => Err(format!("give at most {} seconds", LONGEST.as_secs())),
        d => Ok(d),
    }
}

/// Dollars, as millionths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was looked at")]
fn dollars(text: &str) -> Result<u64, String> {
    let number: f64 = text.trim().parse().map_err(|_| "give an amount in dollars, for example 0.50")?;
    match number * 1e6 {
        micros if (1.0..=1e15).contains(&micros) => Ok(micros.round() as u64),
        _ => Err("give at least a millionth of a dollar, and at most a billion".into()),
    }
}

fn after_help() -> String {
    format!("{}\n\n{ENVIRONMENT}", exit::HELP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn seconds_are_positive_and_bounded() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "x", "0", "-1", "NaN", "inf", "1e300", "1e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
