//! Asking another model: on which failures, in which order, and who is said to have answered.

use turnwright_core::ErrorKind;
use turnwright_interceptor::{
    Chain, Exit,
    builtin::{Fallback, Retry},
    scope,
};

use crate::model::*;

fn fallback() -> Fallback {
    Fallback::new([handle("main", "small"), handle("other", "big")])
}

#[tokio::test(start_paused = true)]
async fn the_models_are_asked_in_order_until_one_answers() {
    for broken in [Fails, Broken] {
        let model = Model::new([
            broken(error(ErrorKind::QuotaExceeded)),
            Fails(error(ErrorKind::NotFound)),
            Says("me"),
        ]);
        let chain = chain(fallback());
        let out = chain.call(&turn(1, None), request(), &model, None).await;
        assert_eq!(said(out), "me");
        assert_eq!(model.asked(), ["main/large", "main/small", "other/big"]);
        assert_eq!(model.attempts(), [1, 2, 3]);
        // The next logical call begins with the agent's own again.
        chain.call(&turn(1, None), request(), &model, None).await.unwrap();
        assert_eq!(model.asked()[3], "main/large");
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_fail_the_last_error_says_who_failed_before() {
    let kinds = [ErrorKind::Overloaded, ErrorKind::Connection, ErrorKind::Server];
    let model = Model::new(kinds.map(|kind| Fails(error(kind))));
    let out = chain(fallback()).call(&turn(1, None), request(), &model, None).await;
    let Err(Exit::Failed(last)) = out else { panic!("{out:?}") };
    assert_eq!(last.kind, ErrorKind::Server);
    assert_eq!(last.message, "no luck; before it main/large: overloaded, main/small: connection");
}

#[tokio::test(start_paused = true)]
async fn other_kinds_come_out_unchanged_and_the_kinds_can_be_chosen() {
    use ErrorKind::*;
    for kind in [Authentication, InvalidRequest, ContextOverflow, ContentFilter, Refusal, Interceptor] {
        let model = Model::new([Fails(error(kind))]);
        let out = chain(fallback()).call(&turn(1, None), request(), &model, None).await;
        assert_eq!((out, model.calls()), (Err(Exit::Failed(error(kind))), 1));
    }
    let on = || chain(fallback().on([ContextOverflow]));
    for (kind, calls) in [(ContextOverflow, 2), (Server, 1)] {
        let model = Model::new([Fails(error(kind))]);
        let out = on().call(&turn(1, None), request(), &model, None).await;
        assert_eq!((out.is_ok(), model.calls()), (calls == 2, calls), "{kind}");
    }
    let none = Model::new([Fails(error(Server))]);
    let out = chain(Fallback::new([])).call(&turn(1, None), request(), &none, None).await;
    assert_eq!(out, Err(Exit::Failed(error(Server))));
}

#[tokio::test(start_paused = true)]
async fn fault_o2_no_other_model_is_asked_once_something_was_shown() {
    let model = Model::new([Shows(error(ErrorKind::Truncated))]);
    let out = chain(fallback()).call(&turn(1, None), request(), &model, None).await;
    assert_eq!((out, model.calls()), (Err(Exit::Failed(error(ErrorKind::Truncated))), 1));
    let model = Model::new([Leaves]);
    let out = chain(fallback()).call(&turn(1, None), request(), &model, None).await;
    assert_eq!((out, model.calls()), (Err(crate::support::control("enough")), 1));
    let model = Model::new([Fails(error(ErrorKind::Server))]);
    let out = chain(fallback()).call(&turn(1, None), request(), &model, Some("not safe")).await;
    assert_eq!((out.is_err(), model.calls()), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn no_other_model_is_asked_once_the_deadline_passed() {
    let model = Model::new([Fails(error(ErrorKind::Server))]).takes(5 * SECOND);
    let out = chain(fallback()).call(&turn(1, Some(5 * SECOND)), request(), &model, None).await;
    assert_eq!((out, model.calls()), (Err(Exit::Failed(error(ErrorKind::Server))), 1));
}

#[tokio::test(start_paused = true)]
async fn a_model_gets_its_attempts_before_the_next_one_is_asked() {
    let chain = Chain::<scope::LlmCall>::default();
    chain.register(fallback()).keep();
    chain.register(Retry::new(2)).keep();
    let model = Model::new((0..3).map(|_| Fails(error(ErrorKind::Overloaded))));
    let out = chain.call(&turn(1, None), request(), &model, None).await;
    assert_eq!(said(out), "fine");
    assert_eq!(model.asked(), ["main/large", "main/large", "main/small", "main/small"]);
    assert_eq!(model.attempts(), [1, 2, 3, 4]);
}
