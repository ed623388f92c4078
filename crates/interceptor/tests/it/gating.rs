//! Which calls withhold what they stream.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use futures::FutureExt;
use turnwright_core::TurnContext;
use turnwright_interceptor::{
    Around, CallState, Chain, Exit, Interceptors, Next, ScopeName, interceptor, scope,
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::support::*;

/// Passes everything, and is gating if its flag says so; an absent flag makes it panic.
#[derive(Clone)]
struct Gate(Option<Arc<AtomicBool>>);
impl Gate {
    fn new(gating: bool) -> Self {
        Self(Some(Arc::new(AtomicBool::new(gating))))
    }
}
impl Around<scope::LlmCall> for Gate {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        next.run(request).await
    }
    fn is_gating(&self) -> bool {
        self.0.as_ref().expect("a flag").load(SeqCst)
    }
}

/// Answers whether its call is gating, after it waited once.
fn says() -> impl turnwright_interceptor::Core<scope::LlmCall> {
    CoreFn(|_: LlmRequest, call: &CallState<scope::LlmCall>| {
        Ok(LlmResponse::text_only(call.is_gating().to_string()))
    })
}

async fn is_gating(chain: &Chain<scope::LlmCall>) -> bool {
    let out = chain.call(&ctx(), LlmRequest::default(), &says(), None).await.unwrap();
    assert_eq!(out.text(), chain.is_gating().to_string(), "nothing changes here meanwhile");
    out.text() == "true"
}

#[tokio::test]
async fn a_call_is_gating_when_one_of_its_own_layers_is() {
    let chain = Chain::default();
    assert!(!is_gating(&chain).await);
    chain.register(Gate::new(false)).keep();
    assert!(!is_gating(&chain).await);
    let gate = chain.register(Gate::new(true));
    assert!(is_gating(&chain).await);
    gate.remove();
    assert!(!is_gating(&chain).await);
}

#[tokio::test]
async fn what_is_registered_or_said_while_a_call_runs_changes_nothing_for_it() {
    let (ctx, core) = (ctx(), says());
    let chain = Chain::default();
    let mut running = Box::pin(chain.call(&ctx, LlmRequest::default(), &core, None));
    assert!((&mut running).now_or_never().is_none(), "it waits in the core");
    let gate = Gate::new(true);
    let registration = chain.register(gate.clone());
    assert_eq!(running.await.unwrap().text(), "false");

    let mut running = Box::pin(chain.call(&ctx, LlmRequest::default(), &core, None));
    assert!((&mut running).now_or_never().is_none());
    registration.remove();
    gate.0.unwrap().store(false, SeqCst);
    assert_eq!(running.await.unwrap().text(), "true");
}

#[tokio::test]
async fn a_layer_that_panics_when_asked_counts_as_gating() {
    let i = Interceptors::default();
    i.register(interceptor!(Gate::new(false)).name("open")).keep();
    i.register(interceptor!(Gate(None)).name("panics")).keep();
    assert!(is_gating(&i.llm_call).await);
    let plan: Vec<_> = i.plan().into_iter().map(|row| (row.scope, row.name, row.gating)).collect();
    assert_eq!(
        plan,
        [(ScopeName::LlmCall, "open".into(), false), (ScopeName::LlmCall, "panics".into(), true)]
    );
}
