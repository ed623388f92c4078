//! `run`: one turn, from a prompt to an exit code; and what it shares with the demonstration.

use std::{
    io::{self, Read},
    pin::pin,
    process::ExitCode,
};

use futures::StreamExt;
use turnwright::{Agent, CancelCause, Outcome, SessionId, TurnEventKind, TurnHandle};

use crate::{
    Global, Output, Refusal, exit,
    output::{Look, Page, To, error_lines},
    signals::{Asked, Signals},
    view::{Human, Json, View},
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
    session: Option<SessionId>,
    prompt: String,
) -> Result<ExitCode, Refusal> {
    let signals = signals()?;
    let session = match session {
        Some(id) => agent.open_session(id).await.map_err(|e| Refusal::new(e.to_string()))?,
        None => agent.new_session(),
    };
    let errors = Look::of(To::Stderr, global.color);
    let mut view: Box<dyn View> = match global.json {
        true => Box::new(Json::new(errors)),
        false => Box::new(Human::new(Look::of(To::Stdout, global.color), errors)),
    };
    let turn = session.start(prompt).map_err(|e| Refusal::new(e.to_string()))?;
    Ok(Watch::new(turn, signals, errors).until_finished(&mut *view).await)
}

/// From here on a signal cancels the turn.
pub(crate) fn signals() -> Result<Signals, Refusal> {
    Signals::install().map_err(|e| Refusal::new(format!("signals cannot be handled: {e}")))
}

/// A turn that is shown, and that whoever sits in front of the program can stop.
pub(crate) struct Watch {
    turn: TurnHandle,
    signals: Signals,
    output: Output,
    errors: Look,
    asked: u32,
    /// What became of a standard output that failed, whatever became of the turn.
    lost: Option<u8>,
}

impl Watch {
    pub(crate) fn new(turn: TurnHandle, signals: Signals, errors: Look) -> Self {
        Self { turn, signals, output: Output::new(), errors, asked: 0, lost: None }
    }

    /// Shows every event and waits for the last one.
    pub(crate) async fn until_finished(mut self, view: &mut dyn View) -> ExitCode {
        let mut ended = None;
        loop {
            let event = tokio::select! {
                event = self.turn.next() => event,
                asked = self.signals.next() => {
                    if stop(&self.turn, &mut self.asked, asked) {
                        continue;
                    }
                    return exit::CANCELLED.into();
                }
            };
            let Some(event) = event else { break };
            if let TurnEventKind::TurnFinished(finished) = &event.kind {
                ended = Some(finished.outcome);
            }
            let mut page = Page::default();
            view.event(&event, &mut page);
            if !self.show(page).await {
                return exit::CANCELLED.into();
            }
        }
        // Every stream of events ends with the outcome; without one the turn is lost, which is a failure.
        self.lost.unwrap_or_else(|| exit::code(ended.unwrap_or(Outcome::Failed))).into()
    }

    /// Writes a page, while signals are heard. Answers whether to go on.
    async fn show(&mut self, page: Page) -> bool {
        let Self { turn, signals, output, errors, asked, lost } = self;
        let written = {
            let mut written = pin!(output.write(page));
            loop {
                tokio::select! {
                    written = &mut written => break written,
                    signal = signals.next() => {
                        if !stop(turn, asked, signal) {
                            return false;
                        }
                    }
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

/// Cancels first, drops the work at the second time, and gives up waiting at the third, for a reader of our output who
/// does not read.
fn stop(turn: &TurnHandle, asked: &mut u32, signal: Asked) -> bool {
    *asked += 1;
    let cause = CancelCause::requested("user").reason(signal.reason());
    match asked {
        1 => drop(turn.cancel(cause)),
        2 => drop(turn.interrupt(cause)),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::sync::Notify;
    use turnwright::testkit::{Reply, ScriptedModel, virtual_sources};
    use turnwright::{Around, Exit, Next, ToolCall, ToolResult, TurnContext, interceptor, scope};

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
    async fn takes(times: u32) -> Duration {
        let model = ScriptedModel::new([Reply::new().call("c", "current_time", "{}").finish()]);
        let (sources, held) = (virtual_sources(1), Arc::new(Notify::new()));
        let agent = Agent::builder("a", model.handle())
            .tool(crate::tools::current_time())
            .interceptor(interceptor!(Holds(held.clone())))
            .sources(sources.clone());
        let mut turn = agent.build().unwrap().new_session().start("hi").unwrap();
        held.notified().await;
        let (began, mut asked) = (sources.clock.instant(), 0);
        for _ in 0..times {
            assert!(stop(&turn, &mut asked, Asked::CtrlC));
        }
        assert_eq!(turn.outcome().await.outcome(), Outcome::Cancelled);
        sources.clock.instant().duration_since(began)
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_ctrl_c_drops_the_work_and_the_third_gives_up() {
        assert!(takes(1).await >= Duration::from_millis(50), "the work has its grace");
        assert_eq!(takes(2).await, Duration::ZERO);
        let turn = Agent::builder("a", ScriptedModel::new([Reply::new().silence()]).handle());
        let turn = turn.build().unwrap().new_session().start("hi").unwrap();
        assert!(!stop(&turn, &mut 2, Asked::CtrlC));
    }
}
