//! Which jobs there are.

use crate::args::Args;
use crate::case::{Case, Job, Read};

/// Jobs that share a directory, one after the other.
pub(crate) type Group = Vec<Job>;

/// Payloads of w1, and the threads that are measured with each.
const W1: [(usize, &[u32]); 3] = [(128, &[16]), (1024, &[1, 16, 64]), (16384, &[16])];
const W1_FULL: [(usize, &[u32]); 3] = [(128, &[1, 16, 64]), (1024, &[1, 4, 16, 64]), (16384, &[1, 16, 64])];

pub(crate) fn groups(args: &Args) -> Vec<Group> {
    let all = [Case::W1, Case::W1p, Case::W2, Case::W3, Case::W4, Case::W5, Case::W6, Case::W7];
    let wanted = all.into_iter().filter(|case| args.cases.is_empty() || args.cases.contains(case));
    wanted.flat_map(|case| groups_of(args, case)).collect()
}

fn groups_of(args: &Args, case: Case) -> Vec<Group> {
    let job = Job { seconds: args.seconds / f64::from(args.rounds), ..Job::new(case, args.data << 20) };
    let threads =
        |default: &[u32]| if args.threads.is_empty() { default.to_vec() } else { args.threads.clone() };
    match case {
        Case::W1 => durable(args, job),
        Case::W1p => args.outstanding.iter().map(|&n| vec![Job { outstanding: n as usize, ..job }]).collect(),
        Case::W2 => {
            let default: &[u32] = if args.full { &[1, 4, 16] } else { &[1, 16] };
            threads(default).into_iter().map(|threads| vec![Job { threads, ..job }]).collect()
        }
        Case::W3 => threads(&[1, 4]).into_iter().map(|threads| vec![Job { threads, ..job }]).collect(),
        // An opening changes the directory, so that each needs one of its own.
        Case::W4 => [false, true].into_iter().map(|cold| vec![Job { cold, ..job }]).collect(),
        Case::W5 => {
            let ways = [Read::One, Read::Each, Read::Scan];
            vec![
                ways.into_iter()
                    .flat_map(|read| [false, true].map(|cold| Job { cold, read, ..job }))
                    .collect(),
            ]
        }
        Case::W6 | Case::W7 => vec![vec![job]],
    }
}

fn durable(args: &Args, job: Job) -> Vec<Group> {
    let table = if args.full { W1_FULL } else { W1 };
    let payloads: Vec<(usize, Vec<u32>)> = if args.payload.is_empty() {
        table.iter().map(|&(payload, threads)| (payload, threads.to_vec())).collect()
    } else {
        args.payload.iter().map(|&payload| (payload as usize, vec![1, 16, 64])).collect()
    };
    let mut groups = Vec::new();
    for (payload, default) in payloads {
        let threads = if args.threads.is_empty() { default } else { args.threads.clone() };
        groups.extend(threads.into_iter().map(|threads| vec![Job { threads, payload, ..job }]));
    }
    groups
}
