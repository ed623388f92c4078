//! Repeating a failed model call: when, how often, after what wait.

use std::time::Duration;

use futures::FutureExt;
use turnwright_control::ControlError;
use turnwright_core::{CancelCause, ErrorInfo, ErrorKind, RetryAdvice};
use turnwright_interceptor::{Exit, builtin::Retry};

use crate::model::*;

fn after(wait: Duration) -> ErrorInfo {
    error(ErrorKind::RateLimited).retry(RetryAdvice::After(wait))
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_repeated_and_the_attempts_are_counted() {
    for broken in [Fails, Broken] {
        let model = Model::new([broken(error(ErrorKind::Server)), Fails(error(ErrorKind::Truncated))]);
        let out = chain(Retry::default()).call(&turn(1, None), request(), &model, None).await;
        assert_eq!(said(out), "fine");
        assert_eq!(model.attempts(), [1, 2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_attempts_are_capped_and_the_last_error_comes_out_unchanged() {
    for (attempts, made) in [(0, 1), (1, 1), (3, 3), (5, 5)] {
        let errors = (1..=9).map(|n| Fails(error(ErrorKind::Server).code(n.to_string())));
        let model = Model::new(errors);
        let out = chain(Retry::new(attempts)).call(&turn(1, None), request(), &model, None).await;
        assert_eq!(out, Err(Exit::Failed(error(ErrorKind::Server).code(made.to_string()))));
        assert_eq!(model.calls(), made);
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_repeating_cures_is_never_repeated_whatever_the_advice() {
    use ErrorKind::*;
    let never = [
        Authentication,
        PermissionDenied,
        QuotaExceeded,
        InvalidRequest,
        ContextOverflow,
        ContentFilter,
        Refusal,
        PolicyViolation,
        Control,
    ];
    for kind in never {
        for advice in [RetryAdvice::Backoff, RetryAdvice::After(SECOND), RetryAdvice::Never] {
            let model = Model::new([Fails(error(kind).retry(advice))]);
            let out = chain(Retry::default()).call(&turn(1, None), request(), &model, None).await;
            assert_eq!((model.calls(), said(out).as_str()), (1, "no luck"), "{kind} {advice:?}");
        }
    }
    let model = Model::new([Fails(error(Server).retry(RetryAdvice::Never))]);
    assert!(chain(Retry::default()).call(&turn(1, None), request(), &model, None).await.is_err());
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_control_error_is_not_repeated() {
    let model = Model::new([Leaves]);
    let out = chain(Retry::default()).call(&turn(1, None), request(), &model, None).await;
    assert_eq!((out, model.calls()), (Err(crate::support::control("enough")), 1));
}

#[tokio::test(start_paused = true)]
async fn fault_o2_o7_r7_96_nothing_is_repeated_once_something_was_shown() {
    let model = Model::new([Fails(error(ErrorKind::Truncated)), Shows(error(ErrorKind::Truncated))]);
    let out = chain(Retry::new(9)).call(&turn(1, None), request(), &model, None).await;
    assert_eq!(out, Err(Exit::Failed(error(ErrorKind::Truncated))), "the error itself, not the refusal");
    assert_eq!(model.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn fault_o5_a_call_that_must_not_be_repeated_is_made_once() {
    let model = Model::new([Fails(error(ErrorKind::Server))]);
    let out = chain(Retry::default()).call(&turn(1, None), request(), &model, Some("not safe")).await;
    assert_eq!((said(out).as_str(), model.calls()), ("no luck", 1));
}

#[tokio::test(start_paused = true)]
async fn fault_o6_r7_98_the_provider_is_not_asked_before_the_time_it_named() {
    let model = Model::new([Fails(after(20 * SECOND)), Fails(after(7 * SECOND))]);
    chain(Retry::default()).call(&turn(1, None), request(), &model, None).await.unwrap();
    let [first, second] = model.waits()[..] else { panic!("{:?}", model.waits()) };
    let spread = Retry::DEFAULT_BACKOFF + Duration::from_millis(2);
    assert!(first >= 20 * SECOND && first <= 20 * SECOND + spread, "{first:?}");
    assert!(second >= 7 * SECOND && second <= 7 * SECOND + spread, "{second:?}");

    // Longer than we are willing to wait: coming back earlier would fail again.
    for (asked, calls) in [(60 * SECOND, 2), (61 * SECOND, 1), (Duration::MAX, 1)] {
        let model = Model::new([Fails(after(asked))]);
        let out = chain(Retry::default()).call(&turn(1, None), request(), &model, None).await;
        assert_eq!((model.calls(), out.is_ok()), (calls, calls == 2), "{asked:?}");
    }
    let patient = Retry::default().longest_wait(Duration::MAX);
    let model = Model::new([Fails(after(3600 * SECOND))]);
    chain(patient).call(&turn(1, None), request(), &model, None).await.unwrap();
    assert!(model.waits()[0] >= 3600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn fault_o6_the_backoff_doubles_to_its_cap_with_full_jitter() {
    let retry = Retry::new(8).backoff(SECOND, 10 * SECOND);
    let bounds = [1, 2, 4, 8, 10, 10, 10].map(|n| n * SECOND);
    let mut longest = [Duration::ZERO; 7];
    let mut shortest = [Duration::MAX; 7];
    let mut all = Vec::new();
    for seed in 0..200 {
        let model = Model::new((0..7).map(|_| Fails(error(ErrorKind::Overloaded))));
        chain(retry.clone()).call(&turn(seed, None), request(), &model, None).await.unwrap();
        for (n, wait) in model.waits().into_iter().enumerate() {
            // Tokio's timer rounds up to its next millisecond.
            assert!(wait <= bounds[n] + Duration::from_millis(2), "{n}: {wait:?}");
            longest[n] = longest[n].max(wait);
            shortest[n] = shortest[n].min(wait);
        }
        all.push(model.waits());
    }
    for n in 0..7 {
        assert!(longest[n] > bounds[n] * 8 / 10, "{n}: {:?}", longest[n]);
        assert!(shortest[n] < bounds[n] * 2 / 10, "{n}: {:?}", shortest[n]);
    }
    let model = Model::new((0..7).map(|_| Fails(error(ErrorKind::Overloaded))));
    chain(retry).call(&turn(7, None), request(), &model, None).await.unwrap();
    assert_eq!(model.waits().len(), all[7].len());
    let differs = |(a, b): (&Duration, &Duration)| a.abs_diff(*b) > Duration::from_millis(2);
    assert!(!model.waits().iter().zip(&all[7]).any(differs), "the same randomness, the same waits");
}

#[tokio::test(start_paused = true)]
async fn fault_o6_r7_98_a_wait_that_would_pass_the_deadline_is_not_begun() {
    let ctx = turn(1, Some(30 * SECOND));
    let began = ctx.sources().clock.instant();
    let model = Model::new([Fails(after(31 * SECOND))]);
    let out = chain(Retry::default()).call(&ctx, request(), &model, None).await;
    assert_eq!(out, Err(Exit::Failed(after(31 * SECOND))));
    assert_eq!((model.calls(), ctx.sources().clock.instant()), (1, began), "returned at once");

    // The waits together are bounded, not each alone.
    let model = Model::new((0..9).map(|_| Fails(after(12 * SECOND))));
    let out = chain(Retry::new(9)).call(&ctx, request(), &model, None).await;
    assert_eq!((said(out).as_str(), model.calls()), ("no luck", 3));
    assert!(ctx.sources().clock.instant() < began + 30 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_during_the_wait_ends_it_at_once_and_so_does_a_dropped_call() {
    let ctx = turn(1, None);
    let model = Model::new([Fails(after(50 * SECOND))]);
    let (chain, began) = (chain(Retry::default()), ctx.sources().clock.instant());
    let mut running = Box::pin(chain.call(&ctx, request(), &model, None));
    assert!((&mut running).now_or_never().is_none());
    assert_eq!(model.calls(), 1, "it waits");
    ctx.cancel().cancel(CancelCause::requested("ann"));
    let cancelled = ControlError::cancelled(CancelCause::requested("ann"));
    assert_eq!(running.await, Err(Exit::Control(cancelled)));
    assert_eq!((model.calls(), ctx.sources().clock.instant()), (1, began));

    let ctx = turn(1, None);
    let model = Model::new([Fails(after(50 * SECOND))]);
    let mut running = Box::pin(chain.call(&ctx, request(), &model, None));
    assert!((&mut running).now_or_never().is_none());
    drop(running);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(model.calls(), 1);
}
