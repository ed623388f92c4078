//! `chat`: turns of one session, one after the other, at a terminal or in a pipe.

mod desk;
mod history;
mod line;

use std::{
    env,
    io::{self, IsTerminal},
    process::ExitCode,
};

use turnwright::{Agent, CancelCause, Session, StartError, llm_stream::prices::Price, store::SqliteStore};

pub(crate) use history::in_short;

use self::{
    desk::{ChatDesk, refused, unknown, unreadable},
    line::{Command, Line},
};
use crate::{
    Global, Refusal,
    approval::{self, First},
    args::ChatArgs,
    config::Config,
    exit, kept,
    keyboard::{Keyboard, Typed, Wanted},
    output::{Look, To, error_lines, is_dumb},
    plan, run,
    view::{Human, Json, Manner, View, one_line, price_of, printable},
    watch::{Console, Heard, Leg},
};

/// Holds a conversation until somebody leaves.
pub(crate) async fn run(
    global: &Global,
    agent: Agent,
    store: Option<&SqliteStore>,
    (args, config): (&ChatArgs, &Config),
) -> Result<ExitCode, Refusal> {
    let errors = Look::of(To::Stderr, global.color);
    let answers = Look::of(To::Stdout, global.color);
    let mut console = Console::new(errors, store.is_some())?;
    let is_terminal = io::stdin().is_terminal();
    let edits = is_terminal && answers.terminal && !global.json && can_edit();
    let keyboard = Keyboard::open(is_terminal, edits)
        .map_err(|e| Refusal::new(format!("standard input cannot be read: {e}")))?;
    if is_terminal && !errors.terminal && answers.terminal && !global.json {
        // Standard error goes elsewhere: a question there would wait for an answer unseen.
        console.asks_on = To::Stdout;
    }
    let session = match &args.session {
        Some(id) => kept::session(&agent, id.clone()).await?,
        None => agent.new_session(),
    };
    if session.is_parked() {
        return Err(run::not_started(&session, &StartError::Parked));
    }
    let plan = plan::text(&agent.plan(), &approval::asked_about(&args.agent.allow, config)?, config);
    let desk = ChatDesk::new(keyboard, session.clone(), plan, args.thoughts);
    let price = price_of(&agent);
    let mut chat = Chat { console, desk, session, answers, errors, json: global.json, price, code: 0 };
    if chat.desk.keyboard.is_terminal() {
        let model = printable(&agent.plan().model).into_owned();
        let named = store.map(|_| format!("session {}; ", chat.session.id())).unwrap_or_default();
        chat.console.tell(&format!("{model}; {named}/help lists the commands, Ctrl-D leaves\n")).await;
    }
    let code = chat.until_left().await;
    let unsent = chat.desk.unsent();
    chat.tell(&unsent).await;
    if chat.session.is_parked() {
        let words = match store {
            Some(_) => {
                format!("`turnwright resume {}` goes on with the turn that is not over", chat.session.id())
            }
            None => "the turn that was paused ends with the program: its session is not kept".into(),
        };
        chat.tell(&format!("{words}\n")).await;
    }
    kept::settle(store, global.color).await;
    Ok(chat.console.lost().unwrap_or(code).into())
}

/// Whether the line editor knows the terminal; what it does not know it would read in a way of its own.
fn can_edit() -> bool {
    let unknown = ["cons25", "emacs"];
    !is_dumb()
        && !env::var("TERM").is_ok_and(|term| unknown.iter().any(|name| term.eq_ignore_ascii_case(name)))
}

struct Chat {
    console: Console,
    desk: ChatDesk,
    session: Session,
    answers: Look,
    errors: Look,
    json: bool,
    price: Option<Price>,
    /// Of the last turn.
    code: u8,
}

impl Chat {
    /// Line after line. Answers the exit code.
    async fn until_left(&mut self) -> u8 {
        let mut interrupted = false;
        loop {
            if let Some(code) = self.console.lost() {
                return code;
            }
            let line = match self.desk.waiting.pop_front() {
                Some(line) => {
                    self.tell(&format!("> {}\n", one_line(&line, 200))).await;
                    line
                }
                None if self.desk.leaves => return self.left(),
                None => match self.console.ask(&mut self.desk.keyboard, "> ", Wanted::Message).await {
                    Heard::Terminate => return exit::CANCELLED,
                    Heard::Typed(Typed::Line(line)) => line,
                    Heard::Typed(Typed::Refused(why)) => {
                        self.tell(&refused(&why)).await;
                        self.code = exit::USAGE;
                        continue;
                    }
                    // One that had a line to clear is no second one.
                    Heard::Typed(Typed::Interrupt { cleared: false }) if interrupted => {
                        return exit::CANCELLED;
                    }
                    Heard::Typed(Typed::Interrupt { .. }) => {
                        interrupted = true;
                        self.tell("once more leaves the chat\n").await;
                        continue;
                    }
                    Heard::Typed(Typed::End) => {
                        if self.desk.keyboard.needs_prompt(Wanted::Message) {
                            self.console.question("\n").await;
                        }
                        return self.left();
                    }
                    Heard::Typed(Typed::Failed(why)) => {
                        self.tell(&error_lines(self.errors, &unreadable(&why), None)).await;
                        return exit::FAILED;
                    }
                },
            };
            interrupted = false;
            match Line::parse(&line) {
                Line::Blank => {}
                Line::Command(Command::Exit) => return self.left(),
                Line::Command(Command::Resume | Command::Stop) if self.session.is_parked() => {
                    let is_stop = Line::parse(&line) == Line::Command(Command::Stop);
                    if let Some(code) = self.parked(is_stop).await {
                        return code;
                    }
                }
                Line::Command(command) => {
                    let answer = self.desk.answer(command);
                    self.tell(&answer).await;
                }
                Line::Unknown(what) => {
                    self.tell(&unknown(&what)).await;
                    self.code = exit::USAGE;
                }
                Line::Message(message) => {
                    if let Some(code) = self.turn(message).await {
                        return code;
                    }
                }
            }
        }
    }

    /// One turn. Answers an exit code if the program is to end.
    async fn turn(&mut self, message: String) -> Option<u8> {
        // Another process may have gone on with the session meanwhile.
        let started = match self.session.refresh().await {
            Ok(()) => self.session.start(message).map_err(|e| run::not_started(&self.session, &e)),
            Err(e) => Err(kept::failed(&e)),
        };
        self.shown(started.map(First::Leg)).await
    }

    /// The turn that is not over goes on, or ends.
    async fn parked(&mut self, is_stop: bool) -> Option<u8> {
        let session = &self.session;
        let leg = match is_stop {
            true => session.cancel_parked(CancelCause::requested("user").reason("/stop")).map(First::Leg),
            false if !session.is_interrupted() && !session.pending().is_empty() => Ok(First::Questions),
            false => session.resume().map(First::Leg),
        };
        let first = leg.map_err(|e| run::not_started(session, &e));
        self.shown(first).await
    }

    /// Shows a turn to its end. Answers an exit code if the program is to end.
    async fn shown(&mut self, first: Result<First, Refusal>) -> Option<u8> {
        let manner = Manner { folds_thoughts: !self.desk.thoughts, asks: true, price: self.price };
        let mut view: Box<dyn View> = match self.json {
            true => Box::new(Json::new(self.errors)),
            false => Box::new(Human::new(self.answers, self.errors, manner)),
        };
        let first = match first {
            Ok(first) => first,
            Err(refusal) => {
                self.code = exit::FAILED;
                self.tell(&error_lines(self.errors, &refusal.message, refusal.hint.as_deref())).await;
                return None;
            }
        };
        let Self { console, session, desk, .. } = self;
        let (leg, leaves) = approval::to_the_end(console, session, first, &mut *view, desk).await;
        self.code = self.console.code(&leg);
        let Leg::Over(finished) = leg else { return Some(exit::CANCELLED) };
        if let Some(finished) = finished {
            self.desk.count(&finished);
        }
        if leaves {
            // A turn that waits to be resumed was not cancelled.
            return Some(if self.session.is_parked() { self.code } else { exit::CANCELLED });
        }
        if self.console.lost().is_some() {
            return Some(self.code);
        }
        let notes = self.desk.after_turn().await;
        self.tell(&notes).await;
        self.desk.exits.then(|| self.left())
    }

    /// On a terminal leaving is no failure; a script wants to know of the last turn.
    fn left(&self) -> u8 {
        if self.desk.keyboard.is_terminal() { 0 } else { self.code }
    }

    async fn tell(&mut self, text: &str) {
        self.console.tell(text).await;
    }
}
