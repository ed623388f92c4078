//! The trail in `tracing`; alone in its process, since `tracing` decides once for all threads which events it has.

use std::{fmt::Debug, sync::Arc};

use futures::FutureExt;
use parking_lot::Mutex;
use tracing::{Event, Level, Metadata, Subscriber, field, span};
use turnwright_control::{
    AUDIT_TARGET, ChannelLimits, CommandBody, CommandType, ControlChannel, ControlCommand, ControlScope,
    Fate, InMemoryControlChannel, drain_control_channel,
};
use turnwright_core::{Part, SessionId, Sources, TurnContext};

/// Keeps the lines of the trail.
#[derive(Clone, Default)]
struct Trail(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl field::Visit for Line {
    fn record_debug(&mut self, field: &field::Field, value: &dyn Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

impl Subscriber for Trail {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == AUDIT_TARGET && *metadata.level() == Level::INFO
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().push(line.0.trim_end().to_owned());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn each_command_is_in_the_trail_with_what_became_of_it_and_without_its_words() {
    let (trail, sources) = (Trail::default(), Sources::default());
    let limits = ChannelLimits { per_session: 2, ..ChannelLimits::default() };
    let channel = InMemoryControlChannel::with_limits(&sources, limits);
    let session = SessionId::new("s").unwrap();
    let ctx = TurnContext::builder(session.clone()).sources(sources.clone()).build();
    let command = |body| ControlCommand::new(&sources, ControlScope::session(session.clone()), "ann", body);
    let say = |text: &str| command(CommandBody::InjectSteer { parts: vec![Part::text(text)] });
    let cancel = command(CommandBody::CancelTurn { reason: Some("enough".into()) });
    let (mut steer, mut again, full) = (say("secret"), say("secret"), say("too much"));
    steer.idempotency_key = Some("k".into());
    again.idempotency_key = Some("k".into());
    let ids = [&cancel, &steer, &again, &full].map(|command| command.id.to_string());
    tracing::subscriber::with_default(trail.clone(), || {
        for command in [cancel, steer, again] {
            channel.send(command).now_or_never().unwrap().unwrap();
        }
        assert!(channel.send(full).now_or_never().unwrap().is_err());
        assert!(drain_control_channel(&channel, &ctx).is_err());
        for delivery in channel.take(&ControlScope::session(session.clone()), &[CommandType::InjectSteer]) {
            delivery.settle(Fate::returned("the turn is over"));
        }
    });
    let [cancel, steer, again, full] = ids;
    let expected = [
        format!("step=\"sent\" command={cancel} type=CancelTurn actor=\"ann\" scope=s"),
        format!("step=\"sent\" command={steer} type=InjectSteer actor=\"ann\" scope=s"),
        format!("step=\"sent\" command={again} type=InjectSteer actor=\"ann\" scope=s"),
        format!("step=\"repeated\" command={again} first={steer}"),
        format!("step=\"sent\" command={full} type=InjectSteer actor=\"ann\" scope=s"),
        format!(
            "step=\"refused\" command={full} error=the control queue of session s is full: 2 commands wait"
        ),
        format!("step=\"settled\" command={cancel} fate=Applied"),
        format!("step=\"settled\" command={steer} fate=Returned {{ reason: \"the turn is over\" }}"),
    ];
    assert_eq!(*trail.0.lock(), expected);
}
