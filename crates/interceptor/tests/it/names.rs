//! What layers are called: in failures, in plans, when they are looked at.

use futures::{FutureExt, Stream, StreamExt, stream};
use turnwright_core::{CancelToken, ErrorInfo, ErrorKind, ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{
    Around, AroundStream, CallState, Chain, Exit, Interceptors, Next, Registration, ScopeName, StreamCall,
    StreamChain, builtin, interceptor, layer_fn, scope,
};
use turnwright_llm_stream::{EventStream, FinishReason, LlmEvent, LlmRequest, StreamItem};

use crate::support::*;

#[derive(Clone, Copy, PartialEq)]
enum Act {
    PanicAtOnce,
    PanicInPoll,
    Break,
    NotAsked,
}

/// Does something wrong, round a tool call and round a stream.
#[derive(Clone)]
struct Bad<T>(Act, T);
impl<T: Clone + Send + Sync + 'static> Around<scope::ToolCall> for Bad<T> {
    fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> impl Future<Output = Result<ToolResult, Exit>> + Send {
        let act = self.0;
        assert!(act != Act::PanicAtOnce, "at once");
        async move {
            assert!(act != Act::PanicInPoll, "in a poll");
            match act {
                Act::Break => next.run(ToolCall { name: "rm".into(), ..call }).await,
                _ => Ok(ToolResult::ok(&ToolCall { name: "rm".into(), ..call }, "")),
            }
        }
    }
}
impl<T: Clone + Send + Sync + 'static> AroundStream for Bad<T> {
    fn around_stream(
        &self,
        _: &TurnContext,
        _: &LlmRequest,
        _: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        let act = self.0;
        assert!(act != Act::PanicAtOnce, "at once");
        inner.take_while(move |event| {
            assert!(act != Act::PanicInPoll, "in a poll");
            std::future::ready(!event.is_terminal())
        })
    }
    fn is_interested(&self, _: &TurnContext, _: &LlmRequest) -> bool {
        assert!(self.0 != Act::NotAsked, "when asked");
        true
    }
}

async fn tool_error(chain: &Chain<scope::ToolCall>) -> String {
    chain.call(&ctx(), call(), &echo(), None).await.unwrap().error.unwrap().message
}

fn events(chain: &StreamChain) -> Vec<LlmEvent> {
    let items =
        stream::iter([LlmEvent::text("a"), LlmEvent::finish(FinishReason::Stop)]).map(StreamItem::Event);
    let (layers, call, ctx, request) = (chain.snapshot(), StreamCall::new(), ctx(), LlmRequest::default());
    let provider = EventStream::provider(items, &CancelToken::new(), None);
    layers.wrap(&ctx, &request, &call, provider).collect::<Vec<_>>().now_or_never().expect("never waits")
}

fn stream_error(chain: &StreamChain) -> ErrorInfo {
    match events(chain).pop() {
        Some(LlmEvent::StreamFailure(f)) => f.error,
        end => panic!("{end:?}"),
    }
}

#[tokio::test]
async fn failures_of_a_layer_bear_the_name_it_is_registered_under() {
    for (act, tool, stream) in [
        (Act::PanicAtOnce, "policy panicked: at once", "policy panicked: at once"),
        (Act::PanicInPoll, "policy panicked: in a poll", "policy panicked: in a poll"),
        (
            Act::Break,
            "policy: call c1 of \"weather\" was turned into call c1 of \"rm\"",
            "policy ended the stream without a terminal event",
        ),
        (
            Act::NotAsked,
            "policy: call c1 of \"weather\" was answered with a result for call c1 of \"rm\"",
            "policy panicked: when asked",
        ),
    ] {
        let i = Interceptors::default();
        i.register(interceptor!(Bad(act, "x")).name("policy").inherited()).keep();
        let direct = Interceptors::default();
        direct.tool_call.register_as("policy", false, Bad(act, "x")).keep();
        direct.llm_stream.register_as("policy", false, Bad(act, "x")).keep();
        for i in [i.for_child(), i, direct] {
            assert_eq!(tool_error(&i.tool_call).await, tool);
            assert_eq!(stream_error(&i.llm_stream).message, stream);
        }
    }
}

#[tokio::test]
async fn a_layer_that_panics_when_asked_for_its_interest_fails_the_stream_and_is_not_skipped() {
    let chain = StreamChain::default();
    chain.register(Bad(Act::NotAsked, ())).keep();
    let all = events(&chain);
    assert_eq!(all.len(), 1, "nothing passes it: {all:?}");
    assert_eq!(stream_error(&chain).kind, ErrorKind::Panic);

    /// An outer layer sees the failure as any other.
    struct Recovers;
    impl AroundStream for Recovers {
        fn around_stream(
            &self,
            _: &TurnContext,
            _: &LlmRequest,
            _: &StreamCall,
            inner: EventStream<'_>,
        ) -> impl Stream<Item = LlmEvent> + Send {
            inner.map(|event| match event {
                LlmEvent::StreamFailure(_) => LlmEvent::finish(FinishReason::Stop),
                event => event,
            })
        }
    }
    let chain = StreamChain::default();
    chain.register(Recovers).keep();
    chain.register(Bad(Act::NotAsked, ())).keep();
    assert_eq!(events(&chain), [LlmEvent::finish(FinishReason::Stop)]);
}

/// Whatever registers a layer, its default name is one.
#[tokio::test]
async fn the_default_name_is_that_of_the_type_without_path_and_parameters() {
    fn generic<L: Around<scope::ToolCall>>(i: &Interceptors, layer: L) -> Registration {
        i.tool_call.register(layer)
    }
    let i = Interceptors::default();
    generic(&i, Bad(Act::PanicAtOnce, vec![(1_u8, "x")])).keep();
    i.register_at("tool_call", interceptor!(Bad(Act::PanicAtOnce, ()))).unwrap().keep();
    i.tool_call.register(Some(Bad(Act::PanicAtOnce, ()))).keep();
    i.llm_stream.register(Bad(Act::PanicAtOnce, ())).keep();
    i.llm_stream.register_as("named", true, Bad(Act::PanicAtOnce, ())).keep();
    let row = |p: turnwright_interceptor::PlannedLayer| (p.scope.name(), p.name, p.inherited);
    let plan: Vec<_> = i.plan().into_iter().map(row).collect();
    let bad = || "Bad".to_owned();
    assert_eq!(
        plan,
        [
            ("llm_stream", bad(), false),
            ("llm_stream", "named".into(), true),
            ("tool_call", bad(), false),
            ("tool_call", bad(), false),
            ("tool_call", bad(), false),
        ]
    );
    assert_eq!(i.for_child().plan().len(), 1);
    assert_eq!(tool_error(&i.tool_call).await, "Bad panicked: at once");
}

#[tokio::test]
async fn none_of_a_layer_passes_everything_and_some_is_the_layer() {
    let (none, some) = (Interceptors::default(), Interceptors::default());
    none.register(interceptor!(None::<Bad<()>>)).keep();
    some.register(interceptor!(Some(Bad(Act::PanicInPoll, ())))).keep();
    assert_eq!(none.plan().len(), 2, "it wraps what the layer wraps");
    assert_eq!(none.tool_call.call(&ctx(), call(), &echo(), None).await.unwrap().content, "[in]");
    assert_eq!(events(&none.llm_stream), [LlmEvent::text("a"), LlmEvent::finish(FinishReason::Stop)]);
    assert_eq!(tool_error(&some.tool_call).await, "Bad panicked: in a poll");
    assert_eq!(stream_error(&some.llm_stream).message, "Bad panicked: in a poll");
}

#[test]
fn reserved_names_are_known_in_every_spelling() {
    for reserved in ["pool_task", "POOL_TASK", "PoolTask", "pool-task", "PipelineStep", "PIPELINE_STEP"] {
        let unknown = reserved.parse::<ScopeName>().unwrap_err();
        assert!(unknown.is_reserved(), "{unknown}");
        assert!(unknown.to_string().starts_with(&format!("{reserved:?} is reserved and not wired")));
    }
    for other in ["", "_", "pool", "pool_tasks", "ToolCall", "TOOL_CALL"] {
        assert!(!other.parse::<ScopeName>().unwrap_err().is_reserved(), "{other}");
    }
}

#[tokio::test]
async fn what_can_be_held_can_be_printed() {
    let i = Interceptors::default();
    let registration = i.tool_call.register_as("policy", false, Bad(Act::Break, ()));
    i.llm_stream.register_as("redact", false, Bad(Act::Break, ())).keep();
    let layers: turnwright_interceptor::StreamLayers = i.llm_stream.snapshot();
    assert_eq!(format!("{:?}", i.tool_call), "Chain(ToolCall, [\"policy\"])");
    assert_eq!(
        format!("{:?} {layers:?}", i.llm_stream),
        "StreamChain([\"redact\"]) StreamLayers([\"redact\"])"
    );
    assert_eq!(format!("{:?}", registration.into_guard()), "RegistrationGuard(Some(Registration { .. }))");
    assert_eq!(
        format!("{:?}", builtin::ToolTimeout::new(std::time::Duration::ZERO)),
        "ToolTimeout { default: 0ns, .. }"
    );
    let chain = Chain::<scope::ToolCall>::default();
    chain
        .register_as(
            "looks",
            false,
            layer::<scope::ToolCall, _>(|call, next| {
                assert!(
                    format!("{next:?}").starts_with("Next { of: \"looks\", call: CallState {"),
                    "{next:?}"
                );
                let refused = next.replayable().unwrap_err();
                let next = refused.into_next();
                next.run(call)
            }),
        )
        .keep();
    let core = CoreFn(|call: ToolCall, state: &CallState<scope::ToolCall>| {
        Ok(ToolResult::ok(&call, format!("{state:?}")))
    });
    let out = chain.call(&ctx(), call(), &core, Some("no")).await.unwrap();
    assert_eq!(
        out.content,
        "CallState { scope: ToolCall, attempt: 1, gating: false, refusal: Some(\"no\"), .. }"
    );
}

#[tokio::test]
async fn a_closure_wraps_the_scope_it_is_made_for_and_panics_under_its_name() {
    let bad = layer_fn::<scope::ToolCall>(|ctx, _, _| panic!("in {}", ctx.session()));
    let spec = interceptor!(bad).name("policy");
    assert_eq!(spec.scopes(), [ScopeName::ToolCall]);
    let all = Interceptors::default();
    all.register(spec).keep();
    assert_eq!(tool_error(&all.tool_call).await, "policy panicked: in s");
    let model = layer_fn::<scope::LlmCall>(|_, request, next| next.run(request));
    assert_eq!(interceptor!(model).scopes(), [ScopeName::LlmCall]);
}
