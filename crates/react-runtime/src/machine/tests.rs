//! Random walks through the machine: pairing, termination, FINALLY_GRAPH once a leg, whatever happens when.

use std::collections::BTreeMap;

use proptest::prelude::*;
use turnwright_core::CancelCause;
use turnwright_hook::TurnAnswer;

use super::*;

/// Walks a turn to its end, choosing by `choices`, and checks the matrix of the design on the way.
fn walk(choices: &[u8]) -> (u32, bool) {
    let mut picks = choices.iter().copied().chain(std::iter::repeat(0));
    let mut machine = TurnMachine::new(Limits { iterations: 3, attempts: 2, renewals: 1 });
    let mut fired: Vec<HookPoint> = Vec::new();
    let mut finally_in_leg = 0;
    let mut pick = || picks.next().unwrap_or(0);
    for steps in 0.. {
        assert!(steps < 10_000, "no end");
        // The machine survives its serialized form at every step.
        if pick() % 4 == 1 {
            let json = serde_json::to_string(&machine).unwrap();
            assert_eq!(serde_json::from_str::<TurnMachine>(&json).unwrap(), machine);
        }
        let was_unwinding = machine.is_unwinding();
        match pick() % 24 {
            1 => machine.stop(ControlError::cancelled(CancelCause::requested("x")).into()),
            2 => machine.request_drain(),
            3 if matches!(machine.next(), Step::Fire(_)) && !was_unwinding => {
                // A point whose hooks were begun, and then cut.
                let Step::Fire(point) = machine.next() else { unreachable!() };
                fired.push(point);
                machine.begin();
                machine.stop(ControlError::loop_detected("x").into());
                if !matches!(
                    point,
                    HookPoint::AfterLlmResponse
                        | HookPoint::AfterToolExecution
                        | HookPoint::AfterIteration
                        | HookPoint::AfterTurn
                ) {
                    continue;
                }
                // An after that was cut is still owed and fires again (its begun hooks are skipped by the cursor).
                fired.pop();
            }
            _ => {}
        }
        let step = machine.next();
        assert_eq!(step, machine.next(), "pure");
        let fed = match step {
            Step::Fire(point) => {
                fired.push(point);
                machine.begin();
                finally_in_leg += u32::from(point == HookPoint::FinallyGraph);
                match point {
                    HookPoint::AfterTurn => Fed::AttemptEnded {
                        answer: [TurnAnswer::Done, TurnAnswer::Continue, TurnAnswer::ContinueAndRenew]
                            [usize::from(pick() % 3)],
                        stop: machine.stop_reason().cloned().unwrap(),
                    },
                    _ => Fed::Done,
                }
            }
            Step::EnterIteration(_) if pick() % 8 == 1 => Fed::Skipped,
            Step::DrainSteer => Fed::Landed(usize::from(pick() % 2)),
            Step::DrainFollowUp => Fed::Landed(usize::from(pick() % 4 == 1)),
            Step::CallModel => Fed::Model(match pick() % 6 {
                0 => ModelEnd::Answer,
                1 => ModelEnd::Calls,
                2 => ModelEnd::CutCalls,
                3 => ModelEnd::Empty,
                4 => ModelEnd::CutAnswer,
                _ => ModelEnd::Failed(ErrorInfo::new(ErrorKind::Server, "x")),
            }),
            Step::RunTools => Fed::Tools { pending: pick() % 3 == 1 },
            Step::Park => Fed::Parked,
            Step::LegOver(stop) => {
                assert_eq!(finally_in_leg, 1, "FINALLY_GRAPH once a leg");
                assert_eq!(stop == LegStop::Terminal, !machine.is_parked());
                if stop == LegStop::Terminal {
                    break;
                }
                finally_in_leg = 0;
                machine.resume(stop == LegStop::Suspended).unwrap();
                continue;
            }
            _ => Fed::Done,
        };
        machine.feed(fed).unwrap();
    }
    check_pairs(&fired, machine.leg());
    assert!(machine.resume(true).is_err(), "a turn that is over does not resume");
    (machine.leg(), machine.was_cut())
}

fn check_pairs(fired: &[HookPoint], legs: u32) {
    use HookPoint::*;
    let mut count: BTreeMap<HookPoint, u32> = BTreeMap::new();
    let mut stack = Vec::new();
    for &point in fired {
        *count.entry(point).or_default() += 1;
        match point {
            StartNodeTurn => stack.extend([EndNodeTurn, FinalizeContent]),
            BeforeTurn => stack.push(AfterTurn),
            BeforeIteration => stack.push(AfterIteration),
            BeforeLlm => stack.push(AfterLlmResponse),
            BeforeToolExecution => stack.push(AfterToolExecution),
            BeforeGraph | AfterApproval | AfterGraph | FinallyGraph => {}
            after => assert_eq!(stack.pop(), Some(after), "{fired:?}"),
        }
    }
    assert_eq!(stack, [], "owed at the end: {fired:?}");
    let n = |p| count.get(&p).copied().unwrap_or(0);
    assert_eq!(n(FinallyGraph), legs);
    assert!(n(AfterGraph) <= 1 && n(StartNodeTurn) <= 1 && n(EndNodeTurn) == n(StartNodeTurn));
    assert_eq!(n(AfterTurn), n(BeforeTurn));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn any_walk_ends_with_every_after_paid(choices in proptest::collection::vec(any::<u8>(), 0..400)) {
        walk(&choices);
    }
}

fn machine_at_model() -> TurnMachine {
    let mut m = TurnMachine::new(Limits::default());
    while m.next() != Step::CallModel {
        let fed = if m.next() == Step::DrainSteer { Fed::Landed(0) } else { Fed::Done };
        m.feed(fed).unwrap();
    }
    m
}

#[test]
fn fault_r2_35_answers_cut_by_the_limit_end_the_turn_in_the_end() {
    let mut m = machine_at_model();
    let mut models = 0;
    let stop = loop {
        let fed = match m.next() {
            Step::CallModel => {
                models += 1;
                Fed::Model(ModelEnd::CutCalls)
            }
            Step::DrainSteer => Fed::Landed(0),
            Step::RunTools => Fed::Tools { pending: false },
            Step::Fire(HookPoint::AfterTurn) => break m.stop_reason().cloned().unwrap(),
            _ => Fed::Done,
        };
        m.feed(fed).unwrap();
    };
    assert_eq!((models, stop.reason), (MAX_CONSECUTIVE_CUTS, StopReason::MaxTokens));
}

#[test]
fn fault_a8_a_stop_after_the_answer_was_complete_changes_nothing() {
    let mut m = machine_at_model();
    m.feed(Fed::Model(ModelEnd::Answer)).unwrap();
    while m.next() != Step::LeaveWork {
        let fed = match m.next() {
            Step::DrainFollowUp => Fed::Landed(0),
            Step::Fire(HookPoint::AfterTurn) => {
                Fed::AttemptEnded { answer: TurnAnswer::Done, stop: m.stop_reason().cloned().unwrap() }
            }
            _ => Fed::Done,
        };
        m.feed(fed).unwrap();
    }
    m.stop(ControlError::cancelled(CancelCause::requested("late")).into());
    assert_eq!(m.stop_reason().unwrap().reason, StopReason::Completed);
    assert!(!m.was_cut());
}

#[test]
fn a_cancel_wins_over_a_suspension_that_is_being_saved() {
    let mut m = machine_at_model();
    m.feed(Fed::Model(ModelEnd::Calls)).unwrap();
    while m.next() != Step::LeaveWork {
        let fed = if m.next() == Step::RunTools { Fed::Tools { pending: true } } else { Fed::Done };
        m.feed(fed).unwrap();
    }
    m.stop(ControlError::cancelled(CancelCause::requested("x")).into());
    assert_eq!(m.next(), Step::Fire(HookPoint::AfterToolExecution));
    assert!(m.was_cut() && !m.is_parked());
}

#[test]
fn an_answer_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut m = machine_at_model();
    let before = m.clone();
    let e = m.feed(Fed::Tools { pending: false }).unwrap_err();
    assert_eq!(e.step, Step::CallModel);
    assert_eq!(m, before);
}
