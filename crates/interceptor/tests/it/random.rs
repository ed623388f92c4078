//! Random chains against a model of what must happen, whole and cut at any poll.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::FutureExt;
use proptest::prelude::*;
use turnwright_core::{ErrorKind, ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, CallState, Chain, Core, Exit, Next, Scope, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::support::*;

#[derive(Debug, Clone, Copy)]
enum Act {
    Pass,
    Mutate,
    ShortCircuit,
    Fail,
    FailAfter,
    PanicAtOnce,
    Panic,
    PanicAfter,
    Control,
    ControlAfter,
    Swallow,
    Repeat,
    /// Drops its attempt after one poll, then goes on.
    Abandon,
    /// Never comes back.
    Hang,
    /// Never comes back once it has an answer.
    HangAfter,
}

#[derive(Debug, Clone, Copy)]
enum Body {
    Answer,
    Fail,
    Panic,
    Control,
    FailVisibly,
}

fn act() -> impl Strategy<Value = Act> {
    use Act::*;
    prop_oneof![
        3 => Just(Pass), 3 => Just(Mutate), 1 => Just(ShortCircuit), 1 => Just(Fail), 1 => Just(FailAfter),
        1 => Just(PanicAtOnce), 1 => Just(Panic), 1 => Just(PanicAfter), 1 => Just(Control),
        1 => Just(ControlAfter), 2 => Just(Swallow), 3 => Just(Repeat), 1 => Just(Abandon),
        1 => Just(Hang), 1 => Just(HangAfter),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    use Body::*;
    prop_oneof![3 => Just(Answer), 2 => Just(Fail), 1 => Just(Panic), 1 => Just(Control), 1 => Just(FailVisibly)]
}

/// What every scope's output comes down to.
#[derive(Debug, Clone, PartialEq)]
enum Out {
    Text(String),
    Failed(ErrorKind),
    Control(String),
}

/// A replayable scope whose inputs and outputs are texts.
trait Texts: Scope<In: Clone + Sync> {
    fn input(text: &str) -> Self::In;
    fn text(input: &Self::In) -> String;
    fn output(input: &Self::In, text: String) -> Self::Out;
    fn read(out: &Result<Self::Out, Exit>) -> Out;
}

fn left(e: &Exit) -> Out {
    match e {
        Exit::Control(control) => Out::Control(control.to_string()),
        Exit::Failed(e) => Out::Failed(e.kind),
    }
}

impl Texts for scope::ToolCall {
    fn input(text: &str) -> ToolCall {
        ToolCall::new("c1", "t", text)
    }
    fn text(input: &ToolCall) -> String {
        input.arguments.clone()
    }
    fn output(input: &ToolCall, text: String) -> ToolResult {
        ToolResult::ok(input, text)
    }
    fn read(out: &Result<ToolResult, Exit>) -> Out {
        match out {
            Err(Exit::Failed(e)) => panic!("{e} left the tool scope as a failure"),
            Err(e) => left(e),
            Ok(out) => {
                assert_eq!((out.call_id().as_str(), out.tool()), ("c1", "t"));
                match &out.error {
                    Some(e) => Out::Failed(e.kind),
                    None => Out::Text(out.content.clone()),
                }
            }
        }
    }
}

impl Texts for scope::LlmCall {
    fn input(text: &str) -> LlmRequest {
        LlmRequest { model: text.into(), ..LlmRequest::default() }
    }
    fn text(input: &LlmRequest) -> String {
        input.model.clone()
    }
    fn output(_: &LlmRequest, text: String) -> LlmResponse {
        LlmResponse::text_only(text)
    }
    fn read(out: &Result<LlmResponse, Exit>) -> Out {
        match out {
            Err(e) => left(e),
            Ok(out) => Out::Text(out.text()),
        }
    }
}

struct Layer(usize, Act, Log);

impl<S: Texts> Around<S> for Layer {
    fn around(
        &self,
        _: &TurnContext,
        input: S::In,
        next: Next<'_, S>,
    ) -> impl Future<Output = Result<S::Out, Exit>> + Send {
        let &Self(i, act, ref log) = self;
        let inside = log.enter(i.to_string());
        if matches!(act, Act::PanicAtOnce) {
            panic!("at once");
        }
        async move {
            let _inside = inside;
            match act {
                Act::Pass | Act::PanicAtOnce => next.run(input).await,
                Act::Mutate => {
                    let input = S::input(&format!("{}{i}", S::text(&input)));
                    let out = next.run(input.clone()).await;
                    match S::read(&out) {
                        Out::Text(text) => Ok(S::output(&input, format!("{text}{i}"))),
                        _ => out,
                    }
                }
                Act::ShortCircuit => Ok(S::output(&input, format!("short {i}"))),
                Act::Fail => Err(failure("before")),
                Act::FailAfter => {
                    let _ = next.run(input).await;
                    Err(failure("after"))
                }
                Act::Panic => panic!("before"),
                Act::PanicAfter => {
                    let _ = next.run(input).await;
                    panic!("after")
                }
                Act::Control => Err(control(&i.to_string())),
                Act::ControlAfter => {
                    let _ = next.run(input).await;
                    Err(control(&i.to_string()))
                }
                Act::Swallow => {
                    let out = next.run(input.clone()).await;
                    match S::read(&out) {
                        Out::Text(_) => out,
                        _ => Ok(S::output(&input, format!("swallowed {i}"))),
                    }
                }
                Act::Repeat => match next.replayable() {
                    Err(refused) => refused.into_next().run(input).await,
                    Ok(mut replay) => {
                        let mut out = replay.run(input.clone()).await;
                        if !matches!(S::read(&out), Out::Text(_)) {
                            out = replay.run(input).await;
                        }
                        out
                    }
                },
                Act::Abandon => {
                    if let Some(out) = next.run(input.clone()).now_or_never() {
                        return out;
                    }
                    Ok(S::output(&input, format!("abandoned {i}")))
                }
                Act::Hang => std::future::pending().await,
                Act::HangAfter => {
                    let _ = next.run(input).await;
                    std::future::pending().await
                }
            }
        }
    }
}

/// Answers as its script says, the last word for ever; at most one call of it is in flight.
struct Scripted(Mutex<VecDeque<Body>>, Log, AtomicU32);

impl<S: Texts> Core<S> for Scripted {
    async fn call(&self, _: &TurnContext, input: S::In, state: &CallState<S>) -> Result<S::Out, Exit> {
        let _inside = self.1.enter("core");
        struct InFlight<'a>(&'a AtomicU32);
        impl Drop for InFlight<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        assert_eq!(self.2.fetch_add(1, SeqCst), 0, "two attempts in flight");
        let _flying = InFlight(&self.2);
        let body = {
            let mut script = self.0.lock().unwrap();
            if script.len() > 1 { script.pop_front().unwrap() } else { script[0] }
        };
        Yield::default().await;
        match body {
            Body::Answer => Ok(S::output(&input, format!("[{}]", S::text(&input)))),
            Body::Fail => Err(failure("core")),
            Body::Panic => panic!("core"),
            Body::Control => Err(control("core")),
            Body::FailVisibly => {
                state.mark_visible();
                Err(failure("core"))
            }
        }
    }
}

/// The same, said once more without futures.
struct Model<'a> {
    acts: &'a [Act],
    script: VecDeque<Body>,
    log: Vec<String>,
    latch: Option<String>,
    visible: bool,
    no_replay: bool,
}

impl Model<'_> {
    fn refuses(&self) -> bool {
        self.no_replay || self.visible || self.latch.is_some()
    }

    /// None: it hangs, or was abandoned while it waited in the core.
    fn call(&mut self, i: usize, input: &str, once: bool) -> Option<Out> {
        let who = if i == self.acts.len() { "core".into() } else { i.to_string() };
        self.log.push(format!("{who}>"));
        let out = match self.acts.get(i) {
            None => self.core(input, once),
            Some(&act) => self.layer(i, act, input, once),
        };
        self.log.push(format!("<{who}"));
        let out = out?;
        if let (Out::Control(e), None) = (&out, &self.latch) {
            self.latch = Some(e.clone());
        }
        Some(self.latch.clone().map_or(out, Out::Control))
    }

    fn core(&mut self, input: &str, once: bool) -> Option<Out> {
        let body = if self.script.len() > 1 { self.script.pop_front().unwrap() } else { self.script[0] };
        if once {
            return None;
        }
        Some(match body {
            Body::Answer => Out::Text(format!("[{input}]")),
            Body::Fail => Out::Failed(ErrorKind::Server),
            Body::Panic => Out::Failed(ErrorKind::Panic),
            Body::Control => Out::Control("policy violation: core".into()),
            Body::FailVisibly => {
                self.visible = true;
                Out::Failed(ErrorKind::Server)
            }
        })
    }

    fn layer(&mut self, i: usize, act: Act, input: &str, once: bool) -> Option<Out> {
        let raised = Out::Control(format!("policy violation: {i}"));
        Some(match act {
            Act::Pass => self.call(i + 1, input, once)?,
            Act::Mutate => match self.call(i + 1, &format!("{input}{i}"), once)? {
                Out::Text(text) => Out::Text(format!("{text}{i}")),
                out => out,
            },
            Act::ShortCircuit => Out::Text(format!("short {i}")),
            Act::Fail => Out::Failed(ErrorKind::Server),
            Act::FailAfter => {
                self.call(i + 1, input, once)?;
                Out::Failed(ErrorKind::Server)
            }
            Act::PanicAtOnce | Act::Panic => Out::Failed(ErrorKind::Panic),
            Act::PanicAfter => {
                self.call(i + 1, input, once)?;
                Out::Failed(ErrorKind::Panic)
            }
            Act::Control => raised,
            Act::ControlAfter => {
                self.call(i + 1, input, once)?;
                raised
            }
            Act::Swallow => match self.call(i + 1, input, once)? {
                Out::Text(text) => Out::Text(text),
                _ => Out::Text(format!("swallowed {i}")),
            },
            Act::Repeat => {
                let refused = self.refuses();
                let out = self.call(i + 1, input, once)?;
                match out {
                    Out::Failed(_) | Out::Control(_) if !refused => {
                        if self.refuses() {
                            Out::Failed(ErrorKind::ReplayRefused)
                        } else {
                            self.call(i + 1, input, once)?
                        }
                    }
                    out => out,
                }
            }
            Act::Abandon => match self.call(i + 1, input, true) {
                Some(out) => out,
                None => Out::Text(format!("abandoned {i}")),
            },
            Act::Hang => return None,
            Act::HangAfter => {
                self.call(i + 1, input, once)?;
                return None;
            }
        })
    }
}

/// Whether somebody will poll again.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Every one that is entered is left, innermost first.
fn assert_nested(log: &[String]) {
    let mut open = Vec::new();
    for entry in log {
        match entry.strip_suffix('>') {
            Some(who) => open.push(who),
            None => assert_eq!(open.pop(), entry.strip_prefix('<'), "{log:?}"),
        }
    }
    assert!(open.is_empty(), "{log:?}");
}

fn check<S: Texts>(acts: &[Act], script: &[Body], no_replay: bool) {
    let mut model = Model {
        acts,
        script: script.iter().copied().collect(),
        log: Vec::new(),
        latch: None,
        visible: false,
        no_replay,
    };
    let expected = model.call(0, "in", false);
    let log = Log::default();
    let chain = Chain::<S>::default();
    for (i, act) in acts.iter().enumerate() {
        chain.register(Layer(i, *act, log.clone())).keep();
    }
    let ctx = ctx();
    // Whole, or until nothing will wake it any more, and then dropped after each number of polls it can wait for.
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut polls = usize::MAX;
    for cut in 0.. {
        let core = Scripted(Mutex::new(script.iter().copied().collect()), log.clone(), AtomicU32::new(0));
        let mut running =
            Box::pin(chain.call(&ctx, S::input("in"), &core, no_replay.then_some("not idempotent")));
        let mut polled = 0;
        let out = loop {
            if cut > 0 && polled == cut - 1 {
                break None;
            }
            polled += 1;
            woken.0.store(false, SeqCst);
            if let Poll::Ready(out) = running.as_mut().poll(&mut Context::from_waker(&waker)) {
                break Some(out);
            }
            if !woken.0.load(SeqCst) {
                assert_eq!(expected, None, "it hangs: {acts:?} {script:?}");
                break None;
            }
            assert!(polled < 1000, "it never ends");
        };
        drop(running);
        assert_eq!(core.2.load(SeqCst), 0, "an attempt outlived its call");
        let log = log.take();
        assert_nested(&log);
        if out.is_some() || cut == 0 {
            let out = out.as_ref().map(S::read);
            assert_eq!((&out, &log), (&expected, &model.log), "{acts:?} {script:?}");
        }
        if cut == 0 {
            polls = polled;
        } else if cut > polls {
            break;
        }
    }
}

proptest! {
    /// Brackets are in order and balanced, outputs legal, the first control error comes out, and one attempt is in
    /// flight at most, also when the call is dropped at any poll or a layer hangs.
    #[test]
    fn fault_r4_66_any_chain_does_what_the_model_says(
        acts in proptest::collection::vec(act(), 0..6),
        script in proptest::collection::vec(body(), 1..4),
        no_replay in any::<bool>(),
    ) {
        check::<scope::ToolCall>(&acts, &script, no_replay);
        check::<scope::LlmCall>(&acts, &script, no_replay);
    }
}
