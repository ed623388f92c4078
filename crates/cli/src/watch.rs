//! Watching turns: what is shown goes out, and whoever sits in front of the program can stop them.

use std::{
    future::pending,
    io,
    pin::{Pin, pin},
    time::Duration,
};

use futures::StreamExt;
use tokio::time::Sleep;
use turnwright::{CancelCause, Outcome, TurnEventKind, TurnFinished, TurnHandle};

use crate::{
    Output, Refusal, exit,
    keyboard::{Keyboard, Typed, Wanted},
    output::{Look, Page, To, error_lines},
    signals::{Asked, Signals},
    view::View,
};

/// How long a turn that is kept may take to its next step after SIGTERM; then it is cancelled. Whoever sends one often
/// kills ten seconds later.
const PATIENCE: Duration = Duration::from_secs(8);

/// What all turns of the program share: the two outputs and the signals.
pub(crate) struct Console {
    pub(crate) signals: Signals,
    pub(crate) errors: Look,
    /// Where somebody who is asked looks.
    pub(crate) asks_on: To,
    /// Whether a turn that is not over outlives the program: then SIGTERM need not end it.
    pub(crate) is_kept: bool,
    output: Output,
    /// What became of a standard output that failed, whatever became of the turn.
    lost: Option<u8>,
}

/// How a leg ended.
pub(crate) enum Leg {
    /// It came to its end. Every stream of events has one; without it the turn is lost, which is a failure.
    Over(Option<Box<TurnFinished>>),
    /// Somebody asked three times: the program leaves without waiting.
    Abandoned,
}

/// What somebody says while a turn runs.
pub(crate) enum Remark {
    /// Stop the turn, for this reason.
    Stop(&'static str),
    /// Stop the turn at its next step, so that it can go on.
    Pause,
    /// Nothing for the turn: this is for the person.
    Tell(String),
}

/// What came while somebody was asked.
pub(crate) enum Heard {
    Typed(Typed),
    /// SIGTERM.
    Terminate,
}

/// Where remarks come from.
pub(crate) trait Aside {
    /// Waits for the next remark.
    ///
    /// # Cancel safety
    /// Safe: no remark is lost when the future is dropped.
    async fn next(&mut self) -> Remark;
}

/// Nobody says anything.
pub(crate) struct Silence;

impl Aside for Silence {
    async fn next(&mut self) -> Remark {
        pending().await
    }
}

/// How often one leg was asked to stop, and whether the program was as well.
#[derive(Default)]
struct Stops {
    times: u32,
    /// SIGTERM came.
    terminate: bool,
    /// Whether a SIGTERM may leave the turn to be resumed.
    is_kept: bool,
    /// When the turn that was asked to stop at its next step is cancelled.
    patience_ends: Option<Pin<Box<Sleep>>>,
}

impl Console {
    /// From here on a signal does not end the program.
    pub(crate) fn new(errors: Look, is_kept: bool) -> Result<Self, Refusal> {
        let signals =
            Signals::install().map_err(|e| Refusal::new(format!("signals cannot be handled: {e}")))?;
        Ok(Self { signals, errors, asks_on: To::Stderr, is_kept, output: Output::new(), lost: None })
    }

    /// Says something to the person, on standard error.
    pub(crate) async fn tell(&mut self, text: &str) {
        let told = self.signals.unless_left(self.output.tell(text)).await;
        if told.is_none() {
            self.abandon();
        }
    }

    /// Says something to somebody who is asked.
    pub(crate) async fn question(&mut self, text: &str) {
        let mut page = Page::default();
        page.push(self.asks_on, text);
        match self.signals.unless_left(self.output.write(page)).await {
            Some(Ok(())) => {}
            Some(Err(_)) => self.lost = Some(exit::FAILED),
            None => drop(self.abandon()),
        }
    }

    /// Leaves without waiting for whoever reads the output.
    fn abandon(&mut self) -> Leg {
        self.output.give_up();
        self.lost = Some(exit::CANCELLED);
        Leg::Abandoned
    }

    /// Waits for a line. Ctrl-C is one more thing that may be typed.
    pub(crate) async fn ask(&mut self, keyboard: &mut Keyboard, prompt: &str, wanted: Wanted) -> Heard {
        let by_hand = keyboard.needs_prompt(wanted);
        if by_hand {
            self.question(prompt).await;
        }
        tokio::select! {
            typed = keyboard.ask(prompt, wanted) => Heard::Typed(typed),
            asked = self.signals.next() => match asked {
                Asked::CtrlC => {
                    if by_hand {
                        self.question("\n").await;
                    }
                    Heard::Typed(Typed::Interrupt { cleared: false })
                }
                Asked::Terminate => Heard::Terminate,
            },
        }
    }

    /// The exit code that overrules that of any turn: standard output failed.
    pub(crate) fn lost(&self) -> Option<u8> {
        self.lost
    }

    /// The exit code of a leg.
    pub(crate) fn code(&self, leg: &Leg) -> u8 {
        match leg {
            Leg::Abandoned => exit::CANCELLED,
            Leg::Over(finished) => {
                let outcome = finished.as_ref().map_or(Outcome::Failed, |finished| finished.outcome);
                self.lost.unwrap_or_else(|| exit::code(outcome))
            }
        }
    }

    /// Shows every event of a leg and waits for the last one. Answers whether the program was asked to end as well.
    pub(crate) async fn watch(
        &mut self,
        mut turn: TurnHandle,
        view: &mut dyn View,
        aside: &mut impl Aside,
    ) -> (Leg, bool) {
        let (mut finished, mut stops) = (None, Stops { is_kept: self.is_kept, ..Stops::default() });
        loop {
            let mut page = Page::default();
            tokio::select! {
                event = turn.next() => {
                    let Some(event) = event else { break };
                    view.event(&event, &mut page);
                    if let TurnEventKind::TurnFinished(last) = event.kind {
                        finished = Some(last);
                    }
                }
                asked = self.signals.next() => {
                    if !stops.signal(&turn, asked) {
                        return (self.abandon(), true);
                    }
                }
                () = stops.impatience() => stops.stop(&turn, Asked::Terminate.reason()),
                remark = aside.next() => match remark {
                    Remark::Stop(reason) => stops.remark(&turn, reason),
                    Remark::Pause => {
                        let words = match turn.drain() {
                            true => "the turn stops at its next step\n",
                            false => "the turn was asked to stop at its next step already\n",
                        };
                        view.aside(words, &mut page);
                    }
                    Remark::Tell(text) => view.aside(&text, &mut page),
                },
            }
            if !self.show(&turn, page, &mut stops).await {
                return (self.abandon(), true);
            }
        }
        (Leg::Over(finished), stops.terminate)
    }

    /// Writes a page, while signals are heard. Answers whether to go on.
    async fn show(&mut self, turn: &TurnHandle, page: Page, stops: &mut Stops) -> bool {
        let Self { signals, output, errors, lost, .. } = self;
        let written = {
            let mut written = pin!(output.write(page));
            loop {
                tokio::select! {
                    written = &mut written => break written,
                    signal = signals.next() => {
                        if !stops.signal(turn, signal) {
                            return false;
                        }
                    }
                    () = stops.impatience() => stops.stop(turn, Asked::Terminate.reason()),
                }
            }
        };
        if let Err(e) = written {
            // Whoever closed the pipe has what they wanted; a full disk is nobody's wish.
            let is_closed = e.kind() == io::ErrorKind::BrokenPipe;
            let reason = if is_closed { "standard output was closed" } else { "standard output failed" };
            turn.cancel(CancelCause::requested("user").reason(reason));
            *lost = Some(if is_closed { exit::CANCELLED } else { exit::FAILED });
            if !is_closed {
                let message = format!("standard output cannot be written: {e}");
                output.tell(&error_lines(*errors, &message, None)).await;
            }
        }
        true
    }
}

impl Stops {
    /// Cancels first, drops the work at the second time, and gives up waiting at the third, for a reader of our output
    /// who does not read. Answers whether to go on waiting.
    ///
    /// The first SIGTERM lets a turn that is kept go on to its next step, from where it is resumed.
    fn signal(&mut self, turn: &TurnHandle, signal: Asked) -> bool {
        let is_first = self.times == 0 && !self.terminate && signal == Asked::Terminate;
        self.terminate |= signal == Asked::Terminate;
        if is_first && self.is_kept {
            turn.drain();
            self.patience_ends = Some(Box::pin(tokio::time::sleep(PATIENCE)));
            return true;
        }
        self.stop(turn, signal.reason());
        self.times < 3
    }

    /// Waits until a turn that was to stop at its next step has taken too long.
    async fn impatience(&mut self) {
        match &mut self.patience_ends {
            Some(end) => end.as_mut().await,
            None => pending().await,
        }
    }

    /// As a signal, but never gives up: who can still type has no need to.
    fn remark(&mut self, turn: &TurnHandle, reason: &str) {
        if self.times < 2 {
            self.stop(turn, reason);
        }
    }

    fn stop(&mut self, turn: &TurnHandle, reason: &str) {
        self.times += 1;
        self.patience_ends = None;
        let cause = CancelCause::requested("user").reason(reason);
        match self.times {
            1 => drop(turn.cancel(cause)),
            2 => drop(turn.interrupt(cause)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::sync::Notify;
    use turnwright::testkit::{Reply, ScriptedModel, virtual_sources};
    use turnwright::{Agent, Around, Exit, Next, ToolCall, ToolResult, TurnContext, interceptor, scope};

    use super::*;

    /// Never lets go of a call, cancelled or not.
    struct Holds(Arc<Notify>);

    impl Around<scope::ToolCall> for Holds {
        async fn around(
            &self,
            _: &TurnContext,
            call: ToolCall,
            next: Next<'_, scope::ToolCall>,
        ) -> Result<ToolResult, Exit> {
            drop(next.run(call).await);
            self.0.notify_one();
            std::future::pending().await
        }
    }

    /// How long a turn that does not let go takes to end once it was stopped so often.
    async fn takes(times: u32, stop: impl Fn(&mut Stops, &TurnHandle)) -> Duration {
        let model = ScriptedModel::new([Reply::new().call("c", "current_time", "{}").finish()]);
        let (sources, held) = (virtual_sources(1), Arc::new(Notify::new()));
        let agent = Agent::builder("a", model.handle())
            .tool(crate::tools::current_time())
            .interceptor(interceptor!(Holds(held.clone())))
            .sources(sources.clone());
        let mut turn = agent.build().unwrap().new_session().start("hi").unwrap();
        held.notified().await;
        let (began, mut stops) = (sources.clock.instant(), Stops::default());
        for _ in 0..times {
            stop(&mut stops, &turn);
        }
        assert_eq!(turn.outcome().await.outcome(), Outcome::Cancelled);
        sources.clock.instant().duration_since(began)
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_ctrl_c_drops_the_work_and_the_third_gives_up() {
        let ctrl_c = |stops: &mut Stops, turn: &TurnHandle| assert!(stops.signal(turn, Asked::CtrlC));
        assert!(takes(1, ctrl_c).await >= Duration::from_millis(50), "the work has its grace");
        assert_eq!(takes(2, ctrl_c).await, Duration::ZERO);
        let turn = Agent::builder("a", ScriptedModel::new([Reply::new().silence()]).handle());
        let turn = turn.build().unwrap().new_session().start("hi").unwrap();
        assert!(!Stops { times: 2, ..Stops::default() }.signal(&turn, Asked::CtrlC));
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_turn_that_finds_no_step_to_stop_at_is_cancelled_in_the_end() {
        let model = ScriptedModel::new([Reply::new().text("Well").silence()]);
        let agent = Agent::builder("a", model.handle()).sources(virtual_sources(1)).build().unwrap();
        let mut turn = agent.new_session().start("hi").unwrap();
        while !matches!(turn.next().await.unwrap().kind, TurnEventKind::TextDelta { .. }) {}
        let mut stops = Stops { is_kept: true, ..Stops::default() };
        assert!(stops.signal(&turn, Asked::Terminate));
        let early = tokio::time::timeout(PATIENCE - Duration::from_secs(1), turn.outcome()).await;
        assert!(early.is_err(), "it has time to come to a step");
        stops.impatience().await;
        stops.stop(&turn, Asked::Terminate.reason());
        assert_eq!(turn.outcome().await.outcome(), Outcome::Cancelled);
        assert!(stops.patience_ends.is_none(), "it is cancelled once");
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_word_drops_the_work_and_no_further_one_gives_up() {
        let word = |stops: &mut Stops, turn: &TurnHandle| stops.remark(turn, "/stop");
        assert!(takes(1, word).await >= Duration::from_millis(50), "the work has its grace");
        assert_eq!(takes(5, word).await, Duration::ZERO);
    }
}
