//! Where the person sits: what is typed while a turn runs, what waits, and the commands.

use std::collections::VecDeque;

use turnwright::{Session, TokenUsage, TurnFinished};

use super::{
    history,
    line::{self, Command, HELP, Line},
};
use crate::{
    approval::{Cleared, Desk},
    keyboard::{Keyboard, Typed},
    view::{counted, one_line, printable, tokens},
    watch::{Aside, Remark},
};

/// How many lines may wait for the next prompt.
const WAITING: usize = 16;

/// See the module.
pub(super) struct ChatDesk {
    pub(super) keyboard: Keyboard,
    /// Typed while a turn ran; taken before anything else is read.
    pub(super) waiting: VecDeque<String>,
    /// Nothing more comes: the chat ends when nothing waits.
    pub(super) leaves: bool,
    /// Somebody wants to leave after this turn, whatever waits.
    pub(super) exits: bool,
    /// Reasoning is shown whole.
    pub(super) thoughts: bool,
    session: Session,
    plan: String,
    told_to_wait: bool,
    last: Option<TokenUsage>,
    all: Option<TokenUsage>,
    turns: u64,
}

impl ChatDesk {
    pub(super) fn new(keyboard: Keyboard, session: Session, plan: String, thoughts: bool) -> Self {
        Self {
            keyboard,
            waiting: VecDeque::new(),
            leaves: false,
            exits: false,
            thoughts,
            session,
            plan,
            told_to_wait: false,
            last: None,
            all: None,
            turns: 0,
        }
    }

    /// Counts a turn that is over.
    pub(super) fn count(&mut self, finished: &TurnFinished) {
        self.turns += 1;
        self.last = Some(finished.usage);
        self.all = Some(match self.all {
            Some(all) => all.plus(finished.usage),
            None => finished.usage,
        });
    }

    /// What a command answers; whole lines. Stopping and leaving are not its matter.
    pub(super) fn answer(&mut self, command: Command) -> String {
        match command {
            Command::Help => HELP.into(),
            Command::Plan => self.plan.clone(),
            Command::Usage => self.usage(),
            Command::History => {
                let mut text = history::in_short(&self.session.messages());
                if self.session.is_busy() {
                    text.push_str("(the running turn is not in it yet)\n");
                }
                text
            }
            Command::Thoughts => {
                self.thoughts = !self.thoughts;
                let how = if self.thoughts { "shown whole" } else { "folded" };
                format!("from the next turn on reasoning is {how}\n")
            }
            Command::Stop | Command::Pause => "no turn is running\n".into(),
            Command::Resume => match self.session.is_busy() {
                true => "the turn is running\n".into(),
                false => "no turn waits to be resumed\n".into(),
            },
            Command::Decide => "no call waits for a decision\n".into(),
            Command::Exit => String::new(),
        }
    }

    fn usage(&self) -> String {
        let (Some(last), Some(all)) = (&self.last, &self.all) else { return "no turn yet\n".into() };
        let turns = counted(self.turns, "turn");
        format!("last turn: {}\nsession: {}, {turns}\n", tokens(last), tokens(all))
    }

    /// What becomes of something that was typed while a turn runs; nothing when there is nothing to say.
    fn take(&mut self, typed: Typed) -> Option<Remark> {
        let tell = |text: String| Some(Remark::Tell(text));
        match typed {
            Typed::Line(line) => match Line::parse(&line) {
                Line::Blank => None,
                Line::Command(Command::Stop) => Some(Remark::Stop("/stop")),
                Line::Command(Command::Pause) => Some(Remark::Pause),
                Line::Command(Command::Exit) => {
                    self.exits = true;
                    Some(Remark::Stop("/exit"))
                }
                Line::Command(command) => tell(self.answer(command)),
                Line::Unknown(what) => tell(unknown(&what)),
                Line::Message(_) => self.wait(line).and_then(tell),
            },
            Typed::Refused(why) => tell(refused(&why)),
            Typed::Interrupt { .. } => Some(Remark::Stop("Ctrl-C")),
            Typed::End => {
                self.leaves = true;
                tell("nothing more to read: the chat ends after this turn\n".into())
            }
            Typed::Failed(why) => {
                self.leaves = true;
                tell(format!("{}: the chat ends after this turn\n", unreadable(&why)))
            }
        }
    }

    /// Keeps a line for the next prompt. Answers what to say about that.
    fn wait(&mut self, line: String) -> Option<String> {
        if self.waiting.len() >= WAITING {
            let line = one_line(&line, 60);
            return Some(format!("{WAITING} lines wait already, this one is not taken: {line}\n"));
        }
        self.waiting.push_back(line);
        let first = !std::mem::replace(&mut self.told_to_wait, true);
        first.then(|| "this waits until the turn is over; /stop ends it now\n".into())
    }

    /// What to say of the lines that wait when the chat is over: whole lines.
    pub(super) fn unsent(&self) -> String {
        let unsent = self.waiting.iter().map(|line| format!("not sent: {}\n", one_line(line, 200)));
        unsent.collect()
    }

    /// Takes what was typed at the last moment of a turn, as if it had been typed after it. Answers what to say.
    pub(super) async fn after_turn(&mut self) -> String {
        let mut notes = String::new();
        for typed in self.keyboard.hush().await {
            match typed {
                Typed::Line(line) => notes.extend(self.wait(line)),
                Typed::Refused(why) => notes.push_str(&refused(&why)),
                Typed::Interrupt { .. } => {}
                Typed::End | Typed::Failed(_) => self.leaves = true,
            }
        }
        self.told_to_wait = false;
        notes
    }
}

impl Aside for ChatDesk {
    async fn next(&mut self) -> Remark {
        loop {
            let typed = self.keyboard.overhear(line::acts_at_once).await;
            if let Some(remark) = self.take(typed) {
                return remark;
            }
        }
    }
}

impl Desk for ChatDesk {
    fn keyboard(&mut self) -> Option<&mut Keyboard> {
        Some(&mut self.keyboard)
    }

    async fn clear(&mut self) -> Cleared {
        let mut cleared = Cleared::default();
        for typed in self.keyboard.clear().await {
            match self.take(typed) {
                Some(Remark::Tell(text)) => cleared.notes.push_str(&text),
                Some(Remark::Stop(word)) => cleared.stop = Some(word),
                Some(Remark::Pause) => cleared.notes.push_str("the turn waits already\n"),
                None => {}
            }
        }
        cleared
    }
}

pub(super) fn unknown(what: &str) -> String {
    format!(
        "unknown command {}; a message that begins with a slash begins with two\n{HELP}",
        one_line(what, 60)
    )
}

pub(super) fn refused(why: &str) -> String {
    format!("not sent: {}\n", printable(why))
}

pub(super) fn unreadable(why: &str) -> String {
    format!("standard input cannot be read: {}", printable(why))
}
