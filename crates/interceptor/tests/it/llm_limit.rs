//! The rate limit: how many, in which order, how long anybody waits, and that nothing is lost.

use std::num::NonZeroU32;

use futures::{FutureExt, future::join_all};
use turnwright_control::ControlError;
use turnwright_core::{CancelCause, ErrorKind, RetryAdvice};
use turnwright_interceptor::{
    Chain, Exit,
    builtin::{RateLimit, Retry},
    scope,
};

use crate::model::*;

fn n(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_minute_sees_more_calls_than_allowed_and_none_waits_without_need() {
    let (chain, ctx) = (chain(RateLimit::new().requests_per_minute(n(3))), turn(1, None));
    let model = Model::new([]);
    join_all((0..10).map(|_| chain.call(&ctx, request(), &model, None))).await;
    let times = model.times();
    let since: Vec<_> = times.iter().map(|t| (*t - times[0]).as_secs()).collect();
    assert_eq!(since, [0, 0, 0, 60, 60, 60, 120, 120, 120, 180]);
    for window in times.windows(4) {
        assert!(window[3] - window[0] >= 60 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_allowed_in_the_order_they_came_and_clones_share_the_limit() {
    let limit = RateLimit::new().concurrent(n(2));
    let chains = [chain(limit.clone()), chain(limit)];
    let (model, ctx) = (Model::new([]).takes(10 * SECOND), turn(1, None));
    let request = |n: usize| {
        let mut request = request();
        request.model = n.to_string();
        request
    };
    join_all((0..7).map(|n| chains[n % 2].call(&ctx, request(n), &model, None))).await;
    assert_eq!((model.calls(), model.most()), (7, 2));
    assert_eq!(model.asked(), (0..7).map(|n| format!("main/{n}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_failure_gives_its_place_back_and_each_attempt_counts() {
    let chain = Chain::<scope::LlmCall>::default();
    chain.register(Retry::default()).keep();
    chain.register(RateLimit::new().concurrent(n(1)).requests_per_minute(n(2))).keep();
    let model = Model::new([Fails(error(ErrorKind::Server)), Fails(error(ErrorKind::Server))]);
    assert_eq!(said(chain.call(&turn(1, None), request(), &model, None).await), "fine");
    let times = model.times();
    assert!(times[2] - times[0] >= 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_place_gives_back_what_was_held() {
    let (chain, ctx) = (chain(RateLimit::new().concurrent(n(1)).requests_per_minute(n(2))), turn(1, None));
    let model = Model::new([]).takes(10 * SECOND);
    let ask = || Box::pin(chain.call(&ctx, request(), &model, None));
    let (mut runs, mut waits) = (ask(), ask());
    assert!((&mut runs).now_or_never().is_none() && (&mut waits).now_or_never().is_none());
    assert_eq!(model.calls(), 1);
    drop(waits); // In the row for a place.
    drop(runs); // While it ran.
    assert!(ask().await.is_ok());
    let mut paced = ask();
    assert!((&mut paced).now_or_never().is_none());
    assert_eq!(model.calls(), 2, "it has the place, and waits for the minute");
    drop(paced);
    assert!(ask().await.is_ok());
    assert_eq!(model.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_would_pass_the_deadline_is_refused_and_a_cancel_ends_it() {
    let (chain, model) = (chain(RateLimit::new().requests_per_minute(n(1))), Model::new([]));
    let ctx = turn(1, Some(30 * SECOND));
    let began = ctx.sources().clock.instant();
    chain.call(&ctx, request(), &model, None).await.unwrap();
    let Err(Exit::Failed(refused)) = chain.call(&ctx, request(), &model, None).await else { panic!() };
    assert_eq!((refused.kind, refused.retry), (ErrorKind::RateLimited, RetryAdvice::Never));
    assert_eq!(ctx.sources().clock.instant(), began, "at once");

    // One that stands behind somebody patient is refused at its deadline.
    let patient = turn(1, None);
    let mut waits = Box::pin(chain.call(&patient, request(), &model, None));
    assert!((&mut waits).now_or_never().is_none());
    let late = chain.call(&ctx, request(), &model, None).await;
    assert_eq!(late.unwrap_err().info().kind, ErrorKind::RateLimited);
    let waited = ctx.sources().clock.instant() - began;
    assert!(waited >= 30 * SECOND && waited < 31 * SECOND, "{waited:?}");

    patient.cancel().cancel(CancelCause::requested("ann"));
    let cancelled = ControlError::cancelled(CancelCause::requested("ann"));
    assert_eq!(waits.await, Err(Exit::Control(cancelled)));
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_minute_slides() {
    let (chain, ctx) = (chain(RateLimit::new().requests_per_minute(n(2))), turn(1, None));
    let model = Model::new([]);
    chain.call(&ctx, request(), &model, None).await.unwrap();
    tokio::time::sleep(40 * SECOND).await;
    for _ in 0..3 {
        chain.call(&ctx, request(), &model, None).await.unwrap();
    }
    let times = model.times();
    let since: Vec<_> = times.iter().map(|t| (*t - times[0]).as_secs()).collect();
    assert_eq!(since, [0, 40, 60, 100]);
}
