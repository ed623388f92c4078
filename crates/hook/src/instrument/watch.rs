//! Watching one call: each before has its after.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll},
};

use pin_project_lite::pin_project;
use turnwright_core::{BoxFuture, CodeCell, CodeResult, LegOutcome, Part, ToolCall, ToolResult, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use super::{
    Call, CallScope, Ended, Failure,
    meter::{Context, Given, Metered, Over},
};

/// What kinds of calls are watched.
pub trait Kind: 'static {
    /// What the call is given.
    type In: ?Sized + Sync;
    /// What it comes to.
    type Out;
    #[doc(hidden)]
    fn given(given: &Self::In) -> Given<'_>;
    #[doc(hidden)]
    fn over<'a>(given: &'a Self::In, ended: Ended<'a, Self::Out>) -> Over<'a>;
}

/// The kinds of calls that are watched.
pub mod kind {
    pub use super::Kind;
    use super::*;

    /// The work of one leg.
    #[derive(Debug)]
    pub enum AgentRun {}
    /// One attempt at a model call.
    #[derive(Debug)]
    pub enum ModelCall {}
    /// One call of a tool.
    #[derive(Debug)]
    pub enum Tool {}
    /// One code cell.
    #[derive(Debug)]
    pub enum Code {}

    impl Kind for AgentRun {
        type In = [Part];
        type Out = LegOutcome;
        fn given(given: &[Part]) -> Given<'_> {
            Given::AgentRun(given)
        }
        fn over<'a>(_: &'a [Part], ended: Ended<'a, LegOutcome>) -> Over<'a> {
            Over::AgentRun(ended)
        }
    }
    impl Kind for ModelCall {
        type In = LlmRequest;
        type Out = LlmResponse;
        fn given(given: &LlmRequest) -> Given<'_> {
            Given::ModelCall(given)
        }
        fn over<'a>(given: &'a LlmRequest, ended: Ended<'a, LlmResponse>) -> Over<'a> {
            Over::ModelCall(given, ended)
        }
    }
    impl Kind for Tool {
        type In = ToolCall;
        type Out = ToolResult;
        fn given(given: &ToolCall) -> Given<'_> {
            Given::ToolCall(given)
        }
        fn over<'a>(given: &'a ToolCall, ended: Ended<'a, ToolResult>) -> Over<'a> {
            Over::ToolCall(given, ended)
        }
    }
    impl Kind for Code {
        type In = CodeCell;
        type Out = CodeResult;
        fn given(given: &CodeCell) -> Given<'_> {
            Given::Code(given)
        }
        fn over<'a>(given: &'a CodeCell, ended: Ended<'a, CodeResult>) -> Over<'a> {
            Over::Code(given, ended)
        }
    }
}

pin_project! {
    /// The work, watched or not.
    #[project = WatchedProj]
    pub(super) enum Watched<'a, F, T> {
        Plain {
            #[pin]
            work: F,
        },
        Watched {
            watched: BoxFuture<'a, T>,
        },
    }
}

impl<T, F: Future<Output = T>> Future for Watched<'_, F, T> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<T> {
        match self.project() {
            WatchedProj::Plain { work } => work.poll(cx),
            WatchedProj::Watched { watched } => watched.as_mut().poll(cx),
        }
    }
}

pub(super) async fn watch<K: Kind, E>(
    list: Arc<[Arc<Metered>]>,
    ctx: &TurnContext,
    given: &K::In,
    failure: fn(&E) -> Failure<'_>,
    work: impl Future<Output = Result<K::Out, E>>,
) -> Result<K::Out, E> {
    let scope = CallScope::under_current(ctx.sources());
    let mut open = Open::<K> { list, call: Call { ctx, scope }, given, contexts: Some(Vec::new()) };
    let work = scope.run(async {
        // In the scope, so that the callbacks can make it current elsewhere.
        open.begin();
        work.await
    });
    let ended = work.await;
    match &ended {
        Ok(out) => open.end(&Ended::Done(out)),
        Err(error) => open.end(&failure(error).into()),
    }
    ended
}

/// A call whose callbacks before were invoked. Dropped, those after follow.
struct Open<'a, K: Kind> {
    /// Those it began with: a context goes back to where it came from, also when that was removed meanwhile.
    list: Arc<[Arc<Metered>]>,
    call: Call<'a>,
    given: &'a K::In,
    /// One each; none when the call is over.
    contexts: Option<Vec<Context>>,
}

impl<K: Kind> Open<'_, K> {
    fn begin(&mut self) {
        let (call, given) = (self.call, K::given(self.given));
        let contexts = self.list.iter().map(|metered| metered.before(&call, given)).collect();
        self.contexts = Some(contexts);
    }

    fn end(&mut self, ended: &Ended<'_, K::Out>) {
        let Some(contexts) = self.contexts.take() else { return };
        let over = K::over(self.given, ended.clone());
        for (metered, context) in self.list.iter().zip(contexts) {
            metered.after(&self.call, over.clone(), context);
        }
    }
}

impl<K: Kind> Drop for Open<'_, K> {
    fn drop(&mut self) {
        let ended = match std::thread::panicking() {
            true => Ended::Panicked,
            false => Ended::Cancelled(self.call.ctx.cancel().cause()),
        };
        self.end(&ended);
    }
}
