//! What users of such systems reported, each by its row.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::StreamExt;
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, SpanKind, Status, TraceContextExt},
};
use opentelemetry_sdk::trace::{Sampler, SpanData};
use turnwright_core::{
    CancelCause, Decision, ErrorInfo, ErrorKind, Part, Timestamp, TokenUsage, TurnContext,
};
use turnwright_interceptor::{
    Around, Exit, Next,
    builtin::{Redactor, Retry},
    interceptor, scope,
};
use turnwright_llm_stream::{LlmEvent, LlmRequest, LlmResponse};
use turnwright_react_runtime::{
    AgentBuilder,
    gate::AskFor,
    tool::{Tool, ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, virtual_sources};
use turnwright_trace_spans::{Capture, Content, Field, Tier, TraceHeaders, Traces, names};

use super::spans::{Spans, attribute, drawn, int, named, text};
use crate::support::{agent, run};

const MS: Duration = Duration::from_millis(1);

fn traced(spans: &Spans, agent: AgentBuilder) -> AgentBuilder {
    with(&spans.traces(Tier::Full), agent)
}

fn with(traces: &Traces, agent: AgentBuilder) -> AgentBuilder {
    agent.hooks(traces.hooks()).instrument(traces.instrument())
}

fn echo(name: &str) -> impl Tool + use<> {
    tool(name, "", |_: ToolContext, _: serde_json::Value| async { Ok::<_, ToolError>("echoed".to_owned()) })
        .parallel()
}

fn calling(calls: &[(&str, &str)]) -> [Reply; 2] {
    let reply = calls.iter().fold(Reply::new(), |reply, (id, name)| reply.call(id, name, "{}"));
    [reply.usage(3, 1).finish(), Reply::new().text("done").usage(5, 2).finish()]
}

fn is_error(span: &SpanData) -> bool {
    matches!(span.status, Status::Error { .. })
}

fn errors(spans: &[SpanData]) -> Vec<(&str, String)> {
    spans.iter().filter(|s| is_error(s)).map(|s| (s.name.as_ref(), text(s, names::ERROR_TYPE))).collect()
}

fn remote() -> SpanContext {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into();
    TraceHeaders { traceparent, tracestate: None }.span().unwrap()
}

#[tokio::test]
async fn fault_g1_a_reader_that_leaves_at_any_event_leaves_no_span_open() {
    let mut events = 0;
    loop {
        let spans = Spans::new();
        let traces = spans.traces(Tier::Full);
        let agent = with(&traces, agent(calling(&[("a", "echo"), ("b", "echo")])).tool(echo("echo")))
            .build()
            .unwrap();
        let session = agent.new_session();
        let mut turn = session.start("hi").unwrap();
        let mut is_over = false;
        for _ in 0..events {
            is_over |= turn.next().await.is_none();
        }
        drop(turn);
        while session.is_busy() {
            tokio::task::yield_now().await;
        }
        spans.check(&[]).unwrap();
        assert_eq!(traces.open_legs(), 0);
        if is_over {
            break;
        }
        events += 1;
    }
    assert!(events > 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fault_g2_g3_r6_86_tools_hang_under_their_agent_streamed_or_not_also_beside_each_other() {
    let mut shapes = Vec::new();
    for is_read in [true, false] {
        for _ in 0..50 {
            let spans = Spans::new();
            let spawns = tool("spawns", "", |ctx: ToolContext, _: serde_json::Value| async move {
                ctx.blocking(|_| Ok::<_, ToolError>("blocked".to_owned())).await
            });
            let agent = agent(calling(&[("a", "echo"), ("b", "spawns"), ("c", "echo")]));
            let agent = traced(&spans, agent.tool(echo("echo")).tool(spawns.parallel())).build().unwrap();
            let mut turn = agent.run("hi").unwrap();
            while is_read && turn.next().await.is_some() {}
            turn.outcome().await;
            spans.check(&[]).unwrap();
            let ended = spans.ended();
            let root = named(&ended, "invoke_agent test").span_context.span_id();
            let mut shape: Vec<_> = ended
                .iter()
                .map(|span| (span.name.clone(), span.span_kind.clone(), span.parent_span_id == root))
                .collect();
            shape.sort_by(|a, b| a.0.cmp(&b.0));
            shapes.push(
                shape
                    .iter()
                    .map(|(name, kind, under)| format!("{name} {kind:?} {under}"))
                    .collect::<Vec<_>>(),
            );
        }
    }
    assert_eq!(
        shapes[0].iter().filter(|line| line.starts_with("execute_tool") && line.ends_with("true")).count(),
        3
    );
    assert!(shapes.iter().all(|shape| *shape == shapes[0]));
}

#[tokio::test]
async fn fault_g5_r6_81_the_parent_is_what_was_current_where_the_turn_was_started() {
    let spans = Spans::new();
    let agent = traced(&spans, agent([Reply::new().text("hi").finish()])).build().unwrap();
    let turn = {
        let _attached = Context::new().with_remote_span_context(remote()).attach();
        agent.run("hi").unwrap()
    };
    let mut turn = turn;
    tokio::spawn(async move { turn.outcome().await }).await.unwrap();
    let ended = spans.ended();
    let root = named(&ended, "invoke_agent test");
    assert_eq!(root.parent_span_id, remote().span_id());
    assert!(ended.iter().all(|span| span.span_context.trace_id() == remote().trace_id()));
}

#[tokio::test(start_paused = true)]
async fn fault_g7_r6_82_a_model_call_lasts_until_its_stream_has_ended() {
    let spans = Spans::new();
    let reply = Reply::new().wait(10 * MS).text("a").wait(20 * MS).text("b").wait(30 * MS).finish();
    run(&traced(&spans, agent([reply])).build().unwrap(), "hi").await;
    let ended = spans.ended();
    let chat = named(&ended, "chat scripted");
    assert_eq!(chat.end_time.duration_since(chat.start_time).unwrap(), 60 * MS);
    assert_eq!(attribute(chat, names::TIME_TO_FIRST_CHUNK), Some(&0.01.into()));
}

#[tokio::test(start_paused = true)]
async fn fault_g8_g9_what_failed_is_an_error_and_what_went_on_is_not() {
    let down = || Reply::new().text("par").fail(ErrorInfo::new(ErrorKind::Server, "down"));
    let spans = Spans::new();
    run(&traced(&spans, agent([down()])).build().unwrap(), "hi").await;
    let failed = [("chat scripted", "server".to_owned()), ("invoke_agent test", "server".to_owned())];
    assert_eq!(errors(&spans.ended()), failed);

    // Repeated with success: the attempt failed, and nothing else.
    let spans = Spans::new();
    let fails = Reply::new().fail(ErrorInfo::new(ErrorKind::Server, "down"));
    let retried =
        agent([fails, Reply::new().text("ok").finish()]).interceptor(interceptor!(Retry::default()));
    run(&traced(&spans, retried).build().unwrap(), "hi").await;
    assert_eq!(errors(&spans.ended()), [("chat scripted", "server".to_owned())]);
    let attempts: Vec<_> =
        spans.ended().iter().map(|span| int(span, names::ATTEMPT)).filter(|n| *n > 0).collect();
    assert_eq!(attempts, [1, 2]);

    // A tool that failed is one; the turn that went on with it is none.
    let spans = Spans::new();
    let fails =
        tool("fails", "", |_: ToolContext, (): ()| async { Err::<String, _>(ToolError::model("no")) });
    let hangs = tool("hangs", "", |_: ToolContext, (): ()| async {
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(String::new())
    });
    let calls = calling(&[("a", "fails"), ("b", "hangs"), ("c", "nowhere")]);
    let agent_ = agent(calls).tool(fails).tool(hangs).tool_timeout(Duration::from_secs(1));
    run(&traced(&spans, agent_).build().unwrap(), "hi").await;
    let mut failed = errors(&spans.ended()).into_iter().map(|(n, e)| format!("{n}: {e}")).collect::<Vec<_>>();
    failed.sort_unstable();
    let expected =
        ["execute_tool fails: tool_failed", "execute_tool hangs: tool_timeout", "execute_tool: unknown_tool"];
    assert_eq!(failed, expected);
}

#[tokio::test(start_paused = true)]
async fn fault_g8_a_denial_and_a_wait_are_no_errors_and_a_cancel_is_one_unless_it_shall_not_be() {
    let spans = Spans::new();
    let asks =
        agent(calling(&[("a", "echo"), ("b", "echo")])).tool(echo("echo")).gate(AskFor::tools(["echo"]));
    let asks = traced(&spans, asks).build().unwrap();
    let session = asks.new_session();
    session.start("hi").unwrap().outcome().await;
    let at = Timestamp::UNIX_EPOCH;
    session.decide(&Decision::deny(["a".into()], "ann", at, Some("no".into()))).await.unwrap();
    session.decide(&Decision::allow(["b".into()], "ann", at)).await.unwrap();
    session.resume().unwrap().outcome().await;
    let ended = spans.ended();
    spans.check(&[]).unwrap();
    assert_eq!(errors(&ended), []);
    let of = |name: &str, key| -> Vec<_> {
        ended.iter().filter(|s| s.name == name).map(|s| text(s, key)).collect()
    };
    assert_eq!(of("execute_tool echo", names::APPROVAL_STATE), ["pending", "pending", "approved", "denied"]);
    assert_eq!(of("approval echo", names::APPROVAL_DECISION), ["denied", "allowed"]);

    for (is_error, expected) in [(true, 2), (false, 0)] {
        let spans = Spans::new();
        let traces = spans.traces_of(Traces::builder().cancel_as_error(is_error));
        let silent = with(&traces, agent([Reply::new().text("a").silence()])).build().unwrap();
        let mut turn = silent.run("hi").unwrap();
        tokio::time::sleep(MS).await;
        turn.cancel(CancelCause::requested("bob"));
        turn.outcome().await;
        let ended = spans.ended();
        assert_eq!(errors(&ended).len(), expected);
        let root = named(&ended, "invoke_agent test");
        assert_eq!(
            (text(root, names::OUTCOME), text(root, names::CANCEL_ACTOR)),
            ("cancelled".into(), "bob".into())
        );
    }
}

/// A word that nobody may see, planted wherever a turn has words.
const CANARY: &str = "hunter2-canary";

fn canary_agent(spans: &Spans, traces: &Traces) -> AgentBuilder {
    let _ = spans;
    let says = Reply::new().text(format!("I know {CANARY}")).reasoning(CANARY);
    let calls = says.call("a", "tells", &format!(r#"{{"q":"{CANARY}"}}"#)).call("b", "fails", "{}");
    let calls = calls.call("c", &format!("no-{CANARY}"), "{}").finish();
    let fails = Reply::new().text(CANARY).fail(ErrorInfo::new(ErrorKind::Server, format!("body: {CANARY}")));
    let tells = tool("tells", "", |_: ToolContext, _: serde_json::Value| async {
        Ok::<_, ToolError>(CANARY.to_owned())
    });
    let errs =
        tool("fails", "", |_: ToolContext, (): ()| async { Err::<String, _>(ToolError::model(CANARY)) });
    with(traces, agent([calls, fails]).instructions(format!("never say {CANARY}")).tool(tells).tool(errs))
}

#[tokio::test]
async fn fault_g12_r6_84_nothing_that_was_said_is_on_any_span_unless_it_is_asked_for_also_of_a_child() {
    let spans = Spans::new();
    let traces = spans.traces(Tier::Full);
    let child = canary_agent(&spans, &traces).build().unwrap();
    let ask = tool("ask", "", move |ctx: ToolContext, _: serde_json::Value| {
        let child = child.clone();
        async move {
            child.run_under(ctx.as_parent(), CANARY)?.outcome().await;
            Ok::<_, ToolError>(CANARY.to_owned())
        }
    });
    let parent = with(&traces, agent(calling(&[("a", "ask")])).tool(ask)).build().unwrap();
    let mut turn = parent.run(CANARY).unwrap();
    turn.outcome().await;
    let ended = spans.ended();
    spans.check(&[]).unwrap();
    assert!(ended.len() > 10 && !format!("{ended:?}").contains(CANARY), "{}", drawn(&ended));
}

fn redact(text: &str) -> Cow<'_, str> {
    if text.contains(CANARY) { text.replace(CANARY, "[redacted]").into() } else { Cow::Borrowed(text) }
}

#[tokio::test]
async fn what_is_asked_for_is_there_and_redacted_and_in_no_other_attribute() {
    let spans = Spans::new();
    let content = Content::all(Capture::Full);
    let traces = spans.traces_of(Traces::builder().content(content.clone()));
    run(&canary_agent(&spans, &traces).build().unwrap(), CANARY).await;
    let mut told: Vec<_> = spans
        .ended()
        .iter()
        .flat_map(|span| span.attributes.clone())
        .filter(|attribute| format!("{:?}", attribute.value).contains(CANARY))
        .map(|attribute| attribute.key.as_str().to_owned())
        .collect();
    told.sort_unstable();
    told.dedup();
    let mut expected = [
        names::SYSTEM_INSTRUCTIONS,
        names::INPUT_MESSAGES,
        names::OUTPUT_MESSAGES,
        names::TOOL_ARGUMENTS,
        names::TOOL_RESULT,
    ];
    expected.sort_unstable();
    assert_eq!(told, expected);

    let spans = Spans::new();
    let traces = spans.traces_of(Traces::builder().content(content).redact(redact));
    run(&canary_agent(&spans, &traces).build().unwrap(), CANARY).await;
    let ended = format!("{:?}", spans.ended());
    assert!(!ended.contains(CANARY) && ended.contains("[redacted]"));

    let spans = Spans::new();
    let only = Content::default().field(Field::Arguments, Capture::Full);
    let traces = spans.traces_of(Traces::builder().content(only));
    run(&canary_agent(&spans, &traces).build().unwrap(), CANARY).await;
    let ended = spans.ended();
    let with_canary = ended.iter().flat_map(|s| &s.attributes).filter(|a| a.value.as_str().contains(CANARY));
    assert!(with_canary.map(|a| a.key.as_str()).eq([names::TOOL_ARGUMENTS]));
}

/// Takes words out of what the model is sent.
struct Cleans;
impl Around<scope::LlmCall> for Cleans {
    async fn around(
        &self,
        _: &TurnContext,
        mut request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        request.system = Some("cleaned".into());
        next.run(request).await
    }
}

#[tokio::test]
async fn content_is_what_the_client_was_sent_after_every_layer() {
    let spans = Spans::new();
    let traces = spans.traces_of(Traces::builder().content(Content::all(Capture::Full)));
    let agent =
        agent([Reply::new().text("hi").finish()]).instructions(CANARY).interceptor(interceptor!(Cleans));
    run(&with(&traces, agent).build().unwrap(), "hi").await;
    let ended = spans.ended();
    let sent = text(named(&ended, "chat scripted"), names::SYSTEM_INSTRUCTIONS);
    assert_eq!(sent, r#"[{"content":"cleaned","type":"text"}]"#);
}

/// Counts the texts it is asked about.
#[derive(Clone, Default)]
struct Counts(Arc<AtomicUsize>);
impl Redactor for Counts {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.fetch_add(1, SeqCst);
        Cow::Borrowed(text)
    }
}

#[tokio::test]
async fn nothing_is_serialised_that_is_not_asked_for_or_not_recorded() {
    let texts = async |how: Capture, sampler: Sampler| {
        let (spans, counts) = (Spans::sampled(sampler), Counts::default());
        let traces = spans.traces_of(Traces::builder().content(Content::all(how)).redact(counts.clone()));
        run(&with(&traces, agent(calling(&[("a", "echo")])).tool(echo("echo"))).build().unwrap(), "hi").await;
        (counts.0.load(SeqCst), spans.ended().len())
    };
    assert_eq!(texts(Capture::Off, Sampler::AlwaysOn).await, (0, 4));
    assert_eq!(texts(Capture::Full, Sampler::AlwaysOff).await, (0, 0));
    assert!(texts(Capture::Full, Sampler::AlwaysOn).await.0 > 5);
}

#[tokio::test]
async fn a_leg_that_was_sampled_out_stays_so_when_it_goes_on_and_costs_one_decision() {
    let spans = Spans::sampled(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)));
    let asks = agent(calling(&[("a", "echo")])).tool(echo("echo")).gate(AskFor::tools(["echo"]));
    let session = traced(&spans, asks).build().unwrap().new_session();
    session.start("hi").unwrap().outcome().await;
    session.decide(&Decision::allow(["a".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    session.resume().unwrap().outcome().await;
    assert_eq!(spans.ended().len(), 0);
}

#[tokio::test]
async fn fault_g15_numbers_that_are_none_are_no_attributes() {
    let spans = Spans::new();
    let odd = agent([Reply::new().text("hi").finish()]).temperature(f64::NAN);
    run(&traced(&spans, odd).build().unwrap(), "hi").await;
    let ended = spans.ended();
    assert_eq!(attribute(named(&ended, "chat scripted"), names::REQUEST_TEMPERATURE), None);
}

#[tokio::test]
async fn fault_g19_no_span_of_ours_is_ever_current() {
    let spans = Spans::new();
    let looks = tool("looks", "", |_: ToolContext, (): ()| async {
        assert!(!Context::current().has_active_span());
        Ok::<_, ToolError>(String::new())
    });
    let ran =
        run(&traced(&spans, agent(calling(&[("a", "looks")])).tool(looks)).build().unwrap(), "hi").await;
    assert_eq!(ran.result().content, "done");
    assert_eq!(errors(&spans.ended()), []);
    assert!(!Context::current().has_active_span());
}

#[tokio::test]
async fn fault_r6_83_streaming_is_an_attribute_and_no_operation() {
    let spans = Spans::new();
    run(&traced(&spans, agent([Reply::new().text("hi").finish()])).build().unwrap(), "hi").await;
    let ended = spans.ended();
    let chat = named(&ended, "chat scripted");
    assert_eq!((text(chat, names::OPERATION), &chat.span_kind), ("chat".into(), &SpanKind::Client));
    assert_eq!(attribute(chat, names::REQUEST_STREAM), Some(&true.into()));
}

#[tokio::test]
async fn fault_r6_85_r6_91_r6_93_r6_95_usage_is_on_the_calls_once_the_last_snapshot_whole() {
    let spans = Spans::new();
    let usage = |input, write| TokenUsage {
        input_tokens: Some(input),
        output_tokens: Some(4),
        cache_read_input_tokens: Some(6),
        cache_creation_input_tokens: Some(write),
        reasoning_tokens: Some(0),
        partial: false,
    };
    let snapshot = |input, write| LlmEvent::UsageSnapshot(Box::new(usage(input, write)));
    let reply = Reply::new().event(snapshot(9, 1)).text("hi").event(snapshot(10, 2)).finish();
    let ran = run(&traced(&spans, agent([reply])).build().unwrap(), "hi").await;
    let ended = spans.ended();
    let chat = named(&ended, "chat scripted");
    let counts = [
        names::INPUT_TOKENS,
        names::OUTPUT_TOKENS,
        names::CACHE_READ,
        names::CACHE_WRITE,
        names::CACHE_CREATION,
    ];
    assert_eq!(counts.map(|name| int(chat, name)), [10, 4, 6, 2, 2]);
    assert_eq!(attribute(chat, names::REASONING_TOKENS), None, "a detail that says nothing");
    assert_eq!(ran.result().usage, usage(10, 2));
    let others = ended.iter().filter(|span| span.name != "chat scripted").flat_map(|span| &span.attributes);
    assert!(others.into_iter().all(|attribute| !attribute.key.as_str().starts_with("gen_ai.usage")));
}

#[tokio::test]
async fn fault_r6_90_pieces_of_an_answer_leave_nothing_on_a_span() {
    let size = async |pieces: usize| {
        let spans = Spans::new();
        let reply = (0..pieces).fold(Reply::new(), |reply, _| reply.text("a"));
        run(&traced(&spans, agent([reply.finish()])).build().unwrap(), "hi").await;
        let ended = spans.ended();
        let chat = named(&ended, "chat scripted");
        (chat.attributes.len(), chat.events.events.len(), chat.links.links.len())
    };
    assert_eq!(size(1).await, size(10_000).await);
}

/// Answers in the place of the model.
struct Cached(Result<&'static str, ErrorKind>);
impl Around<scope::LlmCall> for Cached {
    async fn around(
        &self,
        _: &TurnContext,
        _: LlmRequest,
        _: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        match self.0 {
            Ok(text) => Ok(LlmResponse { parts: vec![Part::text(text)], ..LlmResponse::default() }),
            Err(kind) => Err(Exit::failed(kind, "closed")),
        }
    }
}

#[tokio::test]
async fn a_call_that_a_layer_answered_has_a_span_that_says_so() {
    for (answer, is_failed) in [(Ok("cached"), false), (Err(ErrorKind::CircuitOpen), true)] {
        let spans = Spans::new();
        let cached = agent([]).interceptor(interceptor!(Cached(answer)));
        run(&traced(&spans, cached).build().unwrap(), "hi").await;
        let ended = spans.ended();
        let chat = named(&ended, "chat scripted");
        assert_eq!(
            (attribute(chat, names::SHORT_CIRCUITED), is_error(chat)),
            (Some(&true.into()), is_failed)
        );
        assert_eq!(text(chat, names::PROVIDER), "scripted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waited_long_goes_on_in_a_trace_of_its_own_that_is_linked() {
    let spans = Spans::new();
    let traces = spans.traces_of(Traces::builder().resume_in_trace(Duration::from_secs(1)));
    let asks = agent(calling(&[("a", "echo")])).tool(echo("echo")).gate(AskFor::tools(["echo"]));
    let session = with(&traces, asks).build().unwrap().new_session();
    session.start("hi").unwrap().outcome().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    session.decide(&Decision::allow(["a".into()], "ann", Timestamp::UNIX_EPOCH)).await.unwrap();
    session.resume().unwrap().outcome().await;
    spans.check(&[]).unwrap();
    let ended = spans.ended();
    let roots: Vec<_> = ended.iter().filter(|span| span.name == "invoke_agent test").collect();
    let [first, second] = roots.as_slice() else { panic!("{}", drawn(&ended)) };
    assert_eq!(second.parent_span_id, SpanId::INVALID);
    assert_ne!(first.span_context.trace_id(), second.span_context.trace_id());
    assert_eq!(second.links.links[0].span_context.span_id(), first.span_context.span_id());
}

#[tokio::test]
async fn a_tool_knows_the_headers_of_its_own_span() {
    let spans = Spans::new();
    let traces = spans.traces(Tier::Standard);
    let asks = traces.clone();
    let looks = tool("looks", "", move |ctx: ToolContext, (): ()| {
        let headers = asks.headers(ctx.turn());
        async move { Ok::<_, ToolError>(headers.map(|h| h.traceparent).unwrap_or_default()) }
    });
    let ran = run(&with(&traces, agent(calling(&[("a", "looks")])).tool(looks)).build().unwrap(), "hi").await;
    let ended = spans.ended();
    let span = named(&ended, "execute_tool looks");
    let told = ran.messages.iter().flat_map(|m| m.tool_results()).next().unwrap().content.clone();
    assert_eq!(Some(told), TraceHeaders::of(&span.span_context).map(|headers| headers.traceparent));
}

#[tokio::test]
async fn a_child_with_the_instrumentation_twice_or_without_the_hooks_has_each_span_once() {
    for has_both in [true, false] {
        let spans = Spans::new();
        let traces = spans.traces(Tier::Standard);
        let parent_of = with(&traces, agent(calling(&[("a", "ask")])));
        let template = with(&traces, agent([])).build().unwrap();
        let child = agent(calling(&[("x", "echo")])).tool(echo("echo"));
        let child = if has_both { with(&traces, child) } else { child };
        // As `Subagents` builds them.
        let child = child.sources(virtual_sources(2)).inherit(&template).build().unwrap();
        let ask = tool("ask", "", move |ctx: ToolContext, _: serde_json::Value| {
            let child = child.clone();
            async move {
                child.run_under(ctx.as_parent(), "what?")?.outcome().await;
                Ok::<_, ToolError>(String::new())
            }
        });
        run(&parent_of.tool(ask).build().unwrap(), "hi").await;
        spans.check(&[]).unwrap();
        let ended = spans.ended();
        assert_eq!(ended.len(), 8, "{}", drawn(&ended));
        let tool = named(&ended, "execute_tool ask");
        let under = ended.iter().filter(|span| span.parent_span_id == tool.span_context.span_id());
        assert!(under.map(|span| span.name.as_ref()).eq(["invoke_agent test"]));
    }
}
