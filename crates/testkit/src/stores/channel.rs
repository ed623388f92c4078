//! The promises of a control channel.

use std::{sync::Arc, time::Duration};

use turnwright_control::{
    ChannelLimits, CommandBody, CommandType, ControlChannel, ControlCommand, ControlScope, Delivery, Fate,
    Receipt, SendError, Wakeup,
};
use turnwright_core::{Part, SessionId, Sources, TurnId};

use super::{Broken, holds, same, session::session};

/// A fresh channel with these bounds for each promise.
pub type MakeChannel<'a> = &'a (dyn Fn(ChannelLimits) -> Arc<dyn ControlChannel> + Sync);

/// How long anything may take to be seen: a channel across processes notices a little later.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a channel through every promise of [`ControlChannel`]. Wants a tokio runtime with time, and real time.
///
/// # Errors
/// The first promise that is broken.
pub async fn channel_conformance(make: MakeChannel<'_>) -> Result<(), Broken> {
    let usual = || make(ChannelLimits::default());
    what_is_sent_is_taken_once_in_order(&*usual()).await?;
    scopes_route(&*usual()).await?;
    keys_make_one_command_of_two(&*usual()).await?;
    a_command_that_is_sent_twice_is_one(&*usual()).await?;
    what_nobody_takes_ends(&*usual()).await?;
    a_dropped_delivery_goes_back(&*usual()).await?;
    one_command_can_be_taken_back(&*usual()).await?;
    wrong_commands_are_refused(&*usual()).await?;
    let limits = ChannelLimits { per_session: 3, total: 5, ..ChannelLimits::default() };
    a_full_queue_refuses_and_lets_exits_pass(&*make(limits)).await?;
    wakeups_fire(&*usual()).await?;
    each_of_many_has_one_fate(&usual()).await
}

fn command(session: &SessionId, body: CommandBody) -> ControlCommand {
    ControlCommand::new(&Sources::default(), ControlScope::session(session.clone()), "ann", body)
}

fn steer(session: &SessionId, text: &str) -> ControlCommand {
    command(session, CommandBody::InjectSteer { parts: vec![Part::text(text)] })
}

fn cancel(session: &SessionId) -> ControlCommand {
    command(session, CommandBody::CancelTurn { reason: Some("enough".into()) })
}

const ALL: [CommandType; 4] = [
    CommandType::CancelTurn,
    CommandType::DrainTurn,
    CommandType::InjectSteer,
    CommandType::InjectUserMessage,
];

/// Takes until so many are there.
async fn take(
    channel: &dyn ControlChannel,
    scope: &ControlScope,
    types: &[CommandType],
    wanted: usize,
) -> Result<Vec<Delivery>, Broken> {
    let mut taken = Vec::new();
    let wait = async {
        loop {
            taken.extend(channel.take(scope, types));
            if taken.len() >= wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(()) => Ok(taken),
        Err(_) => Err(format!("{wanted} commands can be taken: found {}", taken.len())),
    }
}

async fn fate(receipt: &Receipt) -> Result<Fate, Broken> {
    tokio::time::timeout(PATIENCE, receipt.fate()).await.map_err(|_| "each command has a fate".to_owned())
}

async fn send(channel: &dyn ControlChannel, command: ControlCommand) -> Result<Receipt, Broken> {
    channel.send(command).await.map_err(|e| format!("a legal command is accepted: {e}"))
}

fn listen(channel: &dyn ControlChannel, session: &SessionId) -> (Wakeup, ControlScope) {
    (channel.wakeup(session), ControlScope::session(session.clone()))
}

fn text(delivery: &Delivery) -> String {
    let parts = delivery.command.body.message().unwrap_or_default();
    parts.iter().filter_map(|part| part.as_text()).collect()
}

async fn what_is_sent_is_taken_once_in_order(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let (_listening, scope) = listen(channel, &id);
    let mut receipts = Vec::new();
    for (text, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        receipts.push(send(channel, steer(&id, text).priority(priority)).await?);
    }
    // All must be there before one take, else the order is that of their coming.
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let more = take(channel, &scope, &ALL, 1).await?;
        seen.extend(more);
    }
    let mut order: Vec<_> = seen.iter().map(text).collect();
    if order != ["b", "d", "a", "c"] {
        // A channel that notices them one by one still keeps the order of equals.
        order.retain(|t| matches!(t.as_str(), "a" | "c"));
        same!(order, ["a", "c"], "equal priorities keep their order");
    }
    holds!(channel.take(&scope, &ALL).is_empty(), "what was taken is not taken again");
    for delivery in seen {
        delivery.settle(Fate::Applied);
    }
    for receipt in receipts {
        same!(fate(&receipt).await?, Fate::Applied, "a receipt tells the fate");
    }
    Ok(())
}

async fn one_command_can_be_taken_back(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let (first, second) = (send(channel, steer(&id, "a")).await?, send(channel, steer(&id, "b")).await?);
    let mine = channel.withdraw(&id, second.id()).await;
    holds!(channel.withdraw(&id, second.id()).await.is_none(), "a command is taken back once");
    match mine {
        Some(mine) => {
            same!(text(&mine), "b", "it is that command");
            mine.settle(Fate::returned("taken back"));
        }
        None => return Err("a command that waits can be taken back".into()),
    }
    same!(fate(&second).await?, Fate::returned("taken back"), "who takes it owns its fate");
    let (_listening, scope) = listen(channel, &id);
    let rest = take(channel, &scope, &ALL, 1).await?;
    same!(rest.iter().map(text).collect::<Vec<_>>(), ["a"], "the others wait on");
    holds!(channel.withdraw(&id, first.id()).await.is_none(), "what was taken cannot be taken back");
    Ok(())
}

async fn scopes_route(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let (one, other) = (session("s"), session("s2"));
    let (_a, scope) = listen(channel, &one);
    let (_b, others) = listen(channel, &other);
    send(channel, steer(&other, "other")).await?;
    let taken = take(channel, &others, &ALL, 1).await?;
    holds!(channel.take(&scope, &ALL).is_empty(), "a session gets its own commands only");
    same!(taken.len(), 1, "the other session gets it");
    let mut named = steer(&one, "named");
    named.scope.agent = Some("a".into());
    send(channel, named).await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    holds!(channel.take(&scope, &ALL).is_empty(), "a command that names an agent waits for it");
    let agent = ControlScope { agent: Some("a".into()), ..scope.clone() };
    same!(take(channel, &agent, &ALL, 1).await?.len(), 1, "and reaches it");
    let mut of_a_turn = cancel(&one);
    of_a_turn.scope.turn = Some(TurnId::from_uuid(Sources::default().id::<()>().uuid()));
    send(channel, of_a_turn).await?;
    same!(take(channel, &scope, &ALL, 1).await?.len(), 1, "the turn is for the drain to judge");
    Ok(())
}

async fn keys_make_one_command_of_two(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let (_listening, scope) = listen(channel, &id);
    let first = send(channel, steer(&id, "a").idempotency_key("k")).await?;
    let second = send(channel, steer(&id, "a").idempotency_key("k")).await?;
    same!(second.id(), first.id(), "a repeated key gets the first one's receipt");
    let other = channel.send(steer(&id, "b").idempotency_key("k")).await;
    holds!(matches!(other, Err(SendError::Invalid(_))), "a key of another command is refused");
    let taken = take(channel, &scope, &ALL, 1).await?;
    same!(taken.len(), 1, "it is delivered once");
    for delivery in taken {
        delivery.settle(Fate::Stale);
    }
    same!(fate(&first).await?, Fate::Stale, "both receipts tell its fate");
    same!(fate(&second).await?, Fate::Stale, "both receipts tell its fate");
    let late = send(channel, steer(&id, "a").idempotency_key("k")).await?;
    same!(fate(&late).await?, Fate::Stale, "and so does one that comes later");
    Ok(())
}

async fn a_command_that_is_sent_twice_is_one(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let (_listening, scope) = listen(channel, &id);
    let command = steer(&id, "once");
    let first = send(channel, command.clone()).await?;
    let again = send(channel, command.clone()).await?;
    holds!(first.try_fate().is_none(), "the first receipt is as it was");
    let other = ControlCommand { body: steer(&id, "other").body, ..command };
    let refused = channel.send(other).await;
    holds!(matches!(refused, Err(SendError::Invalid(_))), "an id is one command's");
    let taken = take(channel, &scope, &ALL, 1).await?;
    same!(taken.iter().map(text).collect::<Vec<_>>(), ["once"], "it is taken once");
    holds!(channel.take(&scope, &ALL).is_empty(), "and not again");
    for delivery in taken {
        delivery.settle(Fate::Applied);
    }
    same!((fate(&first).await?, fate(&again).await?), (Fate::Applied, Fate::Applied), "both receipts tell");
    Ok(())
}

async fn what_nobody_takes_ends(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let short = Duration::from_millis(20);
    let gone = send(channel, cancel(&id).ttl(short)).await?;
    let stays = send(channel, steer(&id, "stay").ttl(short)).await?;
    same!(
        fate(&gone).await?,
        Fate::Expired,
        "what nobody took in time is expired, also when nobody asks the channel"
    );
    let (_listening, scope) = listen(channel, &id);
    let taken = take(channel, &scope, &ALL, 1).await?;
    same!(taken.iter().map(text).collect::<Vec<_>>(), ["stay"], "a message does not expire, a cancel does");
    drop(taken);
    holds!(matches!(fate(&stays).await?, Fate::Returned { .. }), "and the message has its own fate");
    Ok(())
}

async fn a_dropped_delivery_goes_back(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let (_listening, scope) = listen(channel, &id);
    let receipt = send(channel, steer(&id, "a")).await?;
    drop(take(channel, &scope, &ALL, 1).await?);
    holds!(matches!(fate(&receipt).await?, Fate::Returned { .. }), "a dropped delivery is returned");
    Ok(())
}

async fn wrong_commands_are_refused(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let reserved = channel.send(command(&id, CommandBody::ApprovalResponse)).await;
    same!(reserved.err(), Some(SendError::ApprovalReserved), "approvals do not travel here");
    let empty = channel.send(command(&id, CommandBody::InjectSteer { parts: Vec::new() })).await;
    holds!(matches!(empty, Err(SendError::Invalid(_))), "a message says something");
    let graph = channel.send(command(&id, CommandBody::PauseGraph)).await;
    holds!(matches!(graph, Err(SendError::Invalid(_))), "a graph command names its instance");
    Ok(())
}

async fn a_full_queue_refuses_and_lets_exits_pass(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let (one, other) = (session("s"), session("s2"));
    for _ in 0..3 {
        send(channel, steer(&one, "a")).await?;
    }
    let full = channel.send(steer(&one, "b")).await;
    holds!(matches!(full, Err(SendError::Full { capacity: 3, .. })), "a full session refuses");
    send(channel, steer(&other, "a")).await?;
    send(channel, steer(&other, "a")).await?;
    let full = channel.send(steer(&other, "b")).await;
    holds!(matches!(full, Err(SendError::Full { capacity: 5, .. })), "a full channel refuses");
    send(channel, cancel(&one)).await?;
    let (_listening, scope) = listen(channel, &one);
    same!(take(channel, &scope, &ALL, 4).await?.len(), 4, "a cancel passes a full queue");
    Ok(())
}

async fn wakeups_fire(channel: &dyn ControlChannel) -> Result<(), Broken> {
    let id = session("s");
    let (mut wakeup, scope) = listen(channel, &id);
    send(channel, steer(&id, "a")).await?;
    let woken = async {
        while channel.take(&scope, &ALL).is_empty() {
            wakeup.arrived().await;
        }
    };
    let woken = tokio::time::timeout(PATIENCE, woken).await;
    holds!(woken.is_ok(), "who listens is woken when a command can be taken");
    Ok(())
}

/// Four senders, a hundred sessions, ten thousand commands: each is taken once, and has one fate.
async fn each_of_many_has_one_fate(channel: &Arc<dyn ControlChannel>) -> Result<(), Broken> {
    let sessions: Vec<_> = (0..100).map(|n| session(&format!("s{n}"))).collect();
    let listening: Vec<_> = sessions.iter().map(|id| listen(&**channel, id)).collect();
    let senders = (0..4).map(|n| {
        let (channel, sessions) = (channel.clone(), sessions.clone());
        async move {
            let mut receipts = Vec::new();
            for i in 0..2_500 {
                let id = &sessions[(i + n * 25) % sessions.len()];
                receipts.push(send(&*channel, steer(id, &format!("{n}.{i}"))).await?);
                if i % 16 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Ok::<_, Broken>(receipts)
        }
    });
    let drain = async {
        let mut seen = Vec::with_capacity(10_000);
        while seen.len() < 10_000 {
            for (_, scope) in &listening {
                for delivery in channel.take(scope, &ALL) {
                    seen.push(text(&delivery));
                    delivery.settle(Fate::Applied);
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        seen
    };
    let all = futures::future::join(futures::future::join_all(senders), drain);
    let Ok((receipts, mut seen)) = tokio::time::timeout(PATIENCE * 6, all).await else {
        return Err("ten thousand commands are taken".into());
    };
    seen.sort();
    seen.dedup();
    same!(seen.len(), 10_000, "each command is taken once");
    for receipt in receipts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        same!(fate(&receipt).await?, Fate::Applied, "each command has its fate");
    }
    Ok(())
}
