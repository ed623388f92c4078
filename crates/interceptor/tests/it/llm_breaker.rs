//! The circuit breaker: what opens it, what closes it, and what callers are told.

use std::{num::NonZeroU32, time::Duration};

use futures::FutureExt;
use turnwright_core::{ErrorKind, RetryAdvice, TurnContext};
use turnwright_interceptor::{
    Chain, Exit,
    builtin::{CircuitBreaker, Fallback, RateLimit},
    scope,
};

use crate::model::*;

type Models = Chain<scope::LlmCall>;

fn breaker(failures: u32) -> CircuitBreaker {
    CircuitBreaker::new(NonZeroU32::new(failures).unwrap(), 30 * SECOND)
}

async fn ask(chain: &Models, ctx: &TurnContext, model: &Model) -> Option<ErrorKind> {
    chain.call(ctx, request(), model, None).await.err().map(|exit| exit.info().kind)
}

fn down(n: usize) -> impl Iterator<Item = Turnout> {
    std::iter::repeat_n(Fails(error(ErrorKind::Server)), n)
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_open_it_and_the_probe_closes_it() {
    let (chain, ctx) = (chain(breaker(3)), turn(1, None));
    let model = Model::new(down(3).chain([Says("up")]).chain(down(2)).chain([Says("up")]).chain(down(2)));
    for _ in 0..3 {
        assert_eq!(ask(&chain, &ctx, &model).await, Some(ErrorKind::Server));
    }
    tokio::time::sleep(10 * SECOND).await;
    let refused = chain.call(&ctx, request(), &model, None).await.unwrap_err().info();
    assert_eq!((refused.kind, refused.retry), (ErrorKind::CircuitOpen, RetryAdvice::After(20 * SECOND)));
    assert_eq!(refused.message, "main/large failed 3 times in a row: it is not asked for now");
    assert_eq!(model.calls(), 3, "it was left alone");
    tokio::time::sleep(20 * SECOND).await;
    // The probe, and then the row begins anew: two failures and an answer open nothing.
    for expected in [None, Some(ErrorKind::Server), Some(ErrorKind::Server), None] {
        assert_eq!(ask(&chain, &ctx, &model).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time_and_a_failed_one_opens_it_again() {
    let (chain, ctx) = (chain(breaker(1)), turn(1, None));
    let model = Model::new(down(2)).takes(SECOND);
    assert_eq!(ask(&chain, &ctx, &model).await, Some(ErrorKind::Server));
    tokio::time::sleep(30 * SECOND).await;
    let (probe, other) = tokio::join!(ask(&chain, &ctx, &model), async {
        chain.call(&ctx, request(), &model, None).await.unwrap_err().info()
    });
    assert_eq!((probe, other.kind), (Some(ErrorKind::Server), ErrorKind::CircuitOpen));
    assert_eq!((other.retry, model.calls()), (RetryAdvice::Backoff, 2));
    assert_eq!(ask(&chain, &ctx, &model).await, Some(ErrorKind::CircuitOpen));
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(ask(&chain, &ctx, &model).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_cut_leaves_the_next_call_to_probe() {
    let (chain, ctx) = (chain(breaker(1)), turn(1, None));
    let model = Model::new(down(1).chain([Leaves])).takes(SECOND);
    assert_eq!(ask(&chain, &ctx, &model).await, Some(ErrorKind::Server));
    tokio::time::sleep(30 * SECOND).await;
    let mut cut = Box::pin(chain.call(&ctx, request(), &model, None));
    assert!((&mut cut).now_or_never().is_none());
    drop(cut);
    let left = chain.call(&ctx, request(), &model, None).await;
    assert_eq!(left, Err(crate::support::control("enough")));
    assert_eq!(ask(&chain, &ctx, &model).await, None);
    assert_eq!(model.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_refuses_shows_that_the_provider_is_up_and_a_layers_failure_shows_nothing() {
    let ctx = turn(1, None);
    for (kind, opens) in [
        (ErrorKind::RateLimited, false),
        (ErrorKind::InvalidRequest, false),
        (ErrorKind::Interceptor, true),
        (ErrorKind::IdleTimeout, true),
    ] {
        let chain = chain(breaker(2));
        let model = Model::new(down(1).chain([Fails(error(kind))]).chain(down(1)));
        for _ in 0..3 {
            ask(&chain, &ctx, &model).await;
        }
        let open = ask(&chain, &ctx, &model).await == Some(ErrorKind::CircuitOpen);
        assert_eq!(open, opens, "{kind}");
    }
    let chain = chain(breaker(1));
    let model = Model::new([Broken(error(ErrorKind::Server))]);
    assert_eq!(ask(&chain, &ctx, &model).await, None, "an answer that carries its error");
    assert_eq!(ask(&chain, &ctx, &model).await, Some(ErrorKind::CircuitOpen));
}

#[tokio::test(start_paused = true)]
async fn each_model_has_its_own_circuit_clones_share_them_and_a_fallback_goes_on() {
    let (shared, ctx) = (breaker(1), turn(1, None));
    let (first, second) = (Models::default(), chain(shared.clone()));
    first.register(Fallback::new([handle("main", "small")])).keep();
    first.register(shared).keep();
    let model = Model::new(down(1));
    for _ in 0..2 {
        assert_eq!(said(first.call(&ctx, request(), &model, None).await), "fine");
    }
    assert_eq!(model.asked(), ["main/large", "main/small", "main/small"]);
    assert_eq!(ask(&second, &ctx, &model).await, Some(ErrorKind::CircuitOpen));
}

#[tokio::test(start_paused = true)]
async fn what_it_remembers_is_bounded() {
    let (chain, ctx) = (chain(CircuitBreaker::new(NonZeroU32::MIN, Duration::MAX)), turn(1, None));
    let of = |n: usize| turnwright_llm_stream::LlmRequest::default().for_model(handle("p", &n.to_string()));
    let model = Model::new(down(CircuitBreaker::MAX_MODELS + 1));
    for n in 0..=CircuitBreaker::MAX_MODELS {
        chain.call(&ctx, of(n), &model, None).await.unwrap_err();
        tokio::time::sleep(SECOND).await;
    }
    assert!(chain.call(&ctx, of(0), &model, None).await.is_ok(), "the oldest is forgotten");
    let last = chain.call(&ctx, of(CircuitBreaker::MAX_MODELS), &model, None).await;
    let Err(Exit::Failed(last)) = last else { panic!("{last:?}") };
    assert_eq!(last.kind, ErrorKind::CircuitOpen);
}

#[tokio::test(start_paused = true)]
async fn our_own_limit_is_no_word_of_the_provider() {
    let chain = chain(breaker(2));
    chain.register(RateLimit::new().requests_per_minute(NonZeroU32::MIN)).keep();
    let (patient, hasty, model) = (turn(1, None), turn(1, Some(30 * SECOND)), Model::new(down(2)));
    assert_eq!(ask(&chain, &patient, &model).await, Some(ErrorKind::Server));
    assert_eq!(ask(&chain, &hasty, &model).await, Some(ErrorKind::RateLimited));
    assert_eq!((ask(&chain, &patient, &model).await, model.calls()), (Some(ErrorKind::Server), 2));
    assert_eq!(ask(&chain, &patient, &model).await, Some(ErrorKind::CircuitOpen), "two failures in a row");
}
