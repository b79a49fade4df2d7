//! The process that is not killed: starts the others, and checks what they leave.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, ensure};
use fastrand::Rng;
use tidelog::remote_log::{
    RemoteLogMetadataManager, RemoteLogSegmentMetadata, RemoteLogSegmentState, RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState, RemoteStorageError,
};

use crate::args::Args;
use crate::child::{Kill, Process};
use crate::corpus::Corpus;
use crate::journal;
use crate::local::LocalLog;
use crate::model::Model;
use crate::objects::Objects;
use crate::phase::{
    DELETED_PARTITION, FIRST_LEADER, Phase, SECOND_LEADER, changes_leader, topic_id_partition,
};
use crate::report::{Report, Tally};
use crate::retention::{Due, by_age};
use crate::retry;
use crate::setup;
use crate::verify;
use crate::wire::Told;

/// Points that a process passes for each segment, nearly.
const POINTS_PER_SEGMENT: u64 = 10;
/// One process in so many is killed after a time instead of at a point.
const KILLED_AFTER_TIME: u32 = 4;
/// By then a process has mostly opened its log, or is about to.
const OPENED_AFTER_US: u64 = 20_000;
/// After one restart in so many the journal is written anew.
const CHECKPOINT_EVERY: u32 = 4;

pub(crate) fn run(args: &Args, corpus: &Corpus, dir: &Path) -> anyhow::Result<Report> {
    setup::write(args, corpus, dir)?;
    let mut run = Run::new(args, dir)?;
    let mut report = Report::default();
    report.input(args, &run.locals);
    for phase in Phase::ALL {
        let tally = run.phase(phase).with_context(|| format!("phase {phase}"))?;
        report.phase(phase, tally);
    }
    ensure!(args.crashes == 0 || run.crashes < args.crashes, "no process was killed");
    Ok(report)
}

/// The local logs of one partition.
pub(crate) struct Locals {
    pub(crate) first: LocalLog,
    pub(crate) second: Option<LocalLog>,
}

struct Run<'a> {
    args: &'a Args,
    dir: &'a Path,
    objects: Objects,
    locals: Vec<Locals>,
    models: Vec<Model>,
    rng: Rng,
    /// Started so far.
    processes: u64,
    /// To be killed yet.
    crashes: u32,
}

impl<'a> Run<'a> {
    fn new(args: &'a Args, dir: &'a Path) -> anyhow::Result<Self> {
        let locals = (0..args.partitions).map(|partition| {
            let second = changes_leader(partition).then(|| LocalLog::open(dir, SECOND_LEADER, partition));
            let first = LocalLog::open(dir, FIRST_LEADER, partition)?;
            Ok(Locals { first, second: second.transpose()? })
        });
        Ok(Self {
            args,
            dir,
            objects: Objects::new(dir)?,
            locals: locals.collect::<anyhow::Result<_>>()?,
            models: (0..args.partitions).map(|_| Model::default()).collect(),
            rng: Rng::with_seed(!args.seed),
            processes: 0,
            crashes: args.crashes,
        })
    }

    fn phase(&mut self, phase: Phase) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let kept = if phase == Phase::Retention { Some(self.kept(&mut tally)?) } else { None };
        let (mean, mut crashes) = self.share(phase);
        loop {
            let crash = (crashes > 0).then(|| self.kill(mean));
            let process = Process { phase, number: self.processes, crash };
            self.processes += 1;
            let models = &mut self.models;
            let finished = process.run(self.args, self.dir, |told| hear(models, told, &mut tally))?;
            self.restart(&mut tally).with_context(|| format!("after {process:?}"))?;
            if finished {
                break;
            }
            crashes -= 1;
            self.crashes -= 1;
            tally.killed += 1;
        }
        if let Some(kept) = kept {
            let listed: Vec<_> = self.models.iter().map(Model::list).collect();
            ensure!(listed == kept, "retention leaves {listed:#?}, due are {kept:#?}");
        }
        self.finish(phase, &mut tally)?;
        Ok(tally)
    }

    /// Points between two crashes of a phase, and their number.
    fn share(&self, phase: Phase) -> (u64, u32) {
        let (partitions, segments) = (self.models.len() as u64, self.args.segments.into());
        let weight = |phase: Phase| phase.segments(partitions, segments);
        let later = Phase::ALL.into_iter().skip_while(|other| *other != phase);
        let all: u64 = later.map(weight).sum();
        let crashes = u64::from(self.crashes) * weight(phase) / all;
        let mean = (weight(phase) * POINTS_PER_SEGMENT / (crashes + 1)).max(2);
        (mean, u32::try_from(crashes).unwrap_or(self.crashes))
    }

    fn kill(&mut self, mean: u64) -> Kill {
        if self.rng.u32(..KILLED_AFTER_TIME) == 0 {
            Kill::After(self.rng.u64(..OPENED_AFTER_US))
        } else {
            Kill::At(self.rng.u64(1..=2 * mean))
        }
    }

    /// Opens what a process left, retries what was not acknowledged, and compares all there is.
    fn restart(&mut self, tally: &mut Tally) -> anyhow::Result<()> {
        let (log, manager) = journal::open(self.dir)?;
        let found = manager.journal().report().context("the journal does not say what it found")?;
        tally.restarted(log.recovery(), &found);
        for model in &mut self.models {
            if let Some(event) = model.take_pending() {
                retry::retry(&manager, model, &event, tally)?;
            }
        }
        let mut listed = Vec::new();
        for (partition, model) in (0..).zip(&self.models) {
            tally.lookups +=
                verify::metadata(&manager, &topic_id_partition(partition), model, &mut self.rng)?;
            listed.extend(model.list());
        }
        tally.objects = verify::objects(&self.objects, &listed, |broker, partition| {
            let locals = self.locals.get(usize::try_from(partition)?).context("no such partition")?;
            locals.of(broker)
        })?;
        tally.segments = listed.len() as u64;
        // Those that come due by themselves hardly end between two crashes.
        if self.rng.u32(..CHECKPOINT_EVERY) == 0 {
            manager.journal().checkpoint()?;
        }
        if self.rng.bool() {
            // Not closed, like that of a killed process; but this process waits for its own threads.
            drop((log, manager));
            return Ok(journal::open(self.dir)?.0.close()?);
        }
        log.close()?;
        Ok(())
    }

    /// The segments that retention leaves, partition by partition.
    fn kept(&self, tally: &mut Tally) -> anyhow::Result<Vec<Vec<RemoteLogSegmentMetadata>>> {
        let (log, manager) = journal::open(self.dir)?;
        let kept = (0..).zip(&self.locals).map(|(partition, locals)| {
            let tp = topic_id_partition(partition);
            let due = Due::of(&manager, locals.leader(Phase::Retention, partition)?, &tp)?;
            let superseded = due.superseded.len();
            ensure!(changes_leader(partition) == (superseded > 0), "{superseded} are superseded in {tp}");
            ensure!(!due.oldest.is_empty(), "nothing is due in {tp}");
            tally.superseded += superseded as u64;
            *if by_age(&tp) { &mut tally.by_age } else { &mut tally.by_size } += due.oldest.len() as u64;
            let due: Vec<_> = due.all().collect();
            let kept = manager.list_remote_log_segments(&tp)?.into_iter();
            let kept: Vec<_> = kept.filter(|segment| !due.contains(segment)).collect();
            ensure!(!kept.is_empty(), "all is due in {tp}");
            Ok(kept)
        });
        let kept = kept.collect();
        log.close()?;
        kept
    }

    /// What must be true once the work of a phase is done.
    fn finish(&self, phase: Phase, tally: &mut Tally) -> anyhow::Result<()> {
        let (log, manager) = journal::open(self.dir)?;
        let (mut finished, mut uploads) = (0, 0);
        for (partition, (locals, model)) in (0..).zip(self.locals.iter().zip(&self.models)) {
            let tp = topic_id_partition(partition);
            let half = phase == Phase::Copy && changes_leader(partition);
            let unfinished = model.list().iter().filter(|segment| !is_finished(segment)).count();
            ensure!(unfinished == usize::from(half), "{unfinished} segments of {tp} are unfinished");
            finished += model.list().len() - unfinished;
            uploads += unfinished;
            let local = locals.leader(phase, partition)?;
            let readable = readable(phase, local, model, half);
            tally.records += verify::records(&manager, &self.objects, &tp, local, &readable)?;
            if phase == Phase::LeaderChange && changes_leader(partition) {
                // Its epochs still lead to what the first leader copied.
                let copied = 0..last_start(&locals.first);
                tally.records += verify::records(&manager, &self.objects, &tp, &locals.first, &copied)?;
            }
        }
        ensure!(
            tally.objects == (finished + uploads) as u64,
            "{} objects, {finished} finished segments, {uploads} uploads",
            tally.objects
        );
        if phase == Phase::DeletePartition {
            check_deleted(&manager, &self.models[DELETED_PARTITION as usize])?;
        }
        Ok(log.close()?)
    }
}

impl Locals {
    fn of(&self, broker: i32) -> anyhow::Result<&LocalLog> {
        let second = || self.second.as_ref().context("no such replica");
        if broker == FIRST_LEADER { Ok(&self.first) } else { second() }
    }

    fn leader(&self, phase: Phase, partition: i32) -> anyhow::Result<&LocalLog> {
        self.of(phase.leader(partition))
    }
}

fn hear(models: &mut [Model], told: Told, tally: &mut Tally) -> anyhow::Result<()> {
    match told {
        Told::Begun(event) => model_of(models, event.topic_id_partition().partition)?.begin(event),
        Told::Acknowledged(partition) => {
            tally.acknowledged += 1;
            model_of(models, partition)?.acknowledge()
        }
        Told::Refused(partition) => model_of(models, partition)?.refuse(),
        Told::Finished => Ok(()),
    }
}

fn model_of(models: &mut [Model], partition: i32) -> anyhow::Result<&mut Model> {
    models.get_mut(usize::try_from(partition)?).with_context(|| format!("no partition {partition}"))
}

fn is_finished(segment: &RemoteLogSegmentMetadata) -> bool {
    segment.state() == RemoteLogSegmentState::CopySegmentFinished
}

fn last_start(local: &LocalLog) -> i64 {
    local.segments.last().map_or(0, |segment| segment.start)
}

/// The offsets of the leader's log that are to be readable; `half`: its last segment is half copied.
fn readable(phase: Phase, local: &LocalLog, model: &Model, half: bool) -> Range<i64> {
    let end = local.end() + 1;
    match phase {
        Phase::Copy => 0..if half { last_start(local) } else { end },
        Phase::LeaderChange => 0..end,
        Phase::Retention | Phase::DeletePartition => {
            model.list().first().map_or(end, RemoteLogSegmentMetadata::start_offset)..end
        }
    }
}

/// A deletion that is over stays so.
fn check_deleted(manager: &dyn RemoteLogMetadataManager, model: &Model) -> anyhow::Result<()> {
    use RemotePartitionDeleteState::{DeletePartitionFinished, DeletePartitionMarked};
    let tp = topic_id_partition(DELETED_PARTITION);
    ensure!(model.deletion() == Some(DeletePartitionFinished), "the deletion of {tp} is not over");
    ensure!(model.list().is_empty(), "{tp} is deleted and has segments");
    let put = |state| {
        let delete = RemotePartitionDeleteMetadata::new(tp.clone(), state, 0, FIRST_LEADER);
        manager.put_remote_partition_delete_metadata(delete)
    };
    put(DeletePartitionFinished).context("a finished deletion is not finished")?;
    let again = put(DeletePartitionMarked);
    ensure!(
        matches!(again, Err(RemoteStorageError::InvalidPartitionDeleteTransition { .. })),
        "a finished deletion begins anew: {again:?}"
    );
    Ok(())
}
