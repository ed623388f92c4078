//! `run`: one turn, from a prompt to an exit code.

use std::{
    future::pending,
    io::{self, IsTerminal, Read},
    process::ExitCode,
};

use turnwright::{Agent, Outcome, Session, SessionId, StartError, store::SqliteStore};

use crate::{
    Global, Refusal,
    approval::{self, Cleared, Desk, First},
    kept,
    keyboard::{Keyboard, Typed},
    output::{Look, To, style},
    view::{Human, Json, Manner, View, counted, price_of},
    watch::{Aside, Console, Leg, Remark},
};

/// The longest prompt that is read from standard input.
const LONGEST_PROMPT: u64 = 4 << 20;

/// The prompt, from standard input where it is `-`.
pub(crate) fn prompt(given: String) -> Result<String, Refusal> {
    let prompt = if given == "-" { from_stdin()? } else { given };
    if prompt.trim().is_empty() {
        return Err(Refusal::new("the prompt is empty"));
    }
    Ok(prompt)
}

fn from_stdin() -> Result<String, Refusal> {
    let mut prompt = String::new();
    let read = io::stdin().lock().take(LONGEST_PROMPT + 1).read_to_string(&mut prompt);
    match read {
        Err(e) => Err(Refusal::new(format!("the prompt cannot be read from standard input: {e}"))),
        Ok(n) if n as u64 > LONGEST_PROMPT => {
            Err(Refusal::new(format!("the prompt is longer than {} MiB", LONGEST_PROMPT >> 20)))
        }
        Ok(_) => Ok(prompt),
    }
}

/// Runs one turn and shows it.
pub(crate) async fn turn(
    global: &Global,
    agent: Agent,
    store: Option<&SqliteStore>,
    session: Option<SessionId>,
    prompt: String,
) -> Result<ExitCode, Refusal> {
    let errors = Look::of(To::Stderr, global.color);
    let mut console = Console::new(errors, store.is_some())?;
    let session = match session {
        Some(id) => kept::session(&agent, id).await?,
        None => agent.new_session(),
    };
    let mut desk = RunDesk::open(errors.terminal && !global.json)?;
    let manner = Manner { asks: desk.can_ask(), price: price_of(&agent), ..Manner::default() };
    let mut view: Box<dyn View> = match global.json {
        true => Box::new(Json::new(errors)),
        false => Box::new(Human::new(Look::of(To::Stdout, global.color), errors, manner)),
    };
    let turn = session.start(prompt).map_err(|e| not_started(&session, &e))?;
    let first = First::Leg(turn);
    let (leg, _) = approval::to_the_end(&mut console, &session, first, &mut *view, &mut desk).await;
    if !desk.can_ask() && matches!(&leg, Leg::Over(Some(finished)) if finished.outcome == Outcome::Suspended)
    {
        let hint = errors.paint(style::HINT, "hint:");
        console.tell(&format!("{hint} {}\n", approval::nobody_to_ask(&session, store.is_some()))).await;
    }
    kept::settle(store, global.color).await;
    Ok(console.code(&leg).into())
}

/// Somebody at a terminal can be asked about calls; nothing is read otherwise.
pub(crate) struct RunDesk(Option<Keyboard>);

/// Why a turn does not begin, with what to do.
pub(crate) fn not_started(session: &Session, e: &StartError) -> Refusal {
    let id = session.id();
    match e {
        StartError::Parked if session.is_interrupted() => {
            let message = format!("a turn of session {id} runs in another process, or was cut off with it");
            Refusal::new(message).hint(format!(
                "`turnwright ctl pause {id}` stops it where it runs; `turnwright resume {id}` goes on where its process died"
            ))
        }
        StartError::Parked => Refusal::new(format!("a turn of session {id} is not over"))
            .hint(format!("`turnwright resume {id}` goes on with it; with --cancel it ends")),
        _ => Refusal::new(e.to_string()),
    }
}

impl RunDesk {
    /// Whether somebody can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.0.is_some()
    }

    /// Somebody is there when standard input is a terminal too.
    pub(crate) fn open(may_ask: bool) -> Result<Self, Refusal> {
        if !may_ask || !cfg!(unix) || !io::stdin().is_terminal() {
            return Ok(Self(None));
        }
        let keyboard = Keyboard::open(true, false);
        keyboard
            .map(|keyboard| Self(Some(keyboard)))
            .map_err(|e| Refusal::new(format!("the terminal cannot be read: {e}")))
    }
}

impl Aside for RunDesk {
    async fn next(&mut self) -> Remark {
        pending().await
    }
}

impl Desk for RunDesk {
    fn keyboard(&mut self) -> Option<&mut Keyboard> {
        self.0.as_mut()
    }

    async fn clear(&mut self) -> Cleared {
        let Some(keyboard) = &mut self.0 else { return Cleared::default() };
        let is_line = |typed: &Typed| matches!(typed, Typed::Line(_) | Typed::Refused(_));
        let early = keyboard.clear().await.into_iter().filter(is_line).count();
        let notes = match early {
            0 => String::new(),
            n => format!("{} typed before the question: no answer\n", counted(n as u64, "line")),
        };
        Cleared { notes, stop: None }
    }
}
