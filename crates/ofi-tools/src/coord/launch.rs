//! Who started this process: the variables of torchrun, Slurm, Open MPI and MPICH.
//!
//! Each launcher says rank and size; not each says where to meet. What is derived is the same in
//! every rank, and the user's `--rendezvous` beats all of it.

use super::frame::MAX_WORLD;
use super::stream::Address;
use crate::abi::process;

/// What a launcher said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launched {
    pub(crate) by: &'static str,
    pub(crate) rank: usize,
    pub(crate) world: usize,
    /// Tells this job from others that may meet at the same address.
    pub(crate) job: String,
    /// None: nothing that all ranks know names a place; the user has to.
    pub(crate) address: Option<Address>,
    /// How the address came about, to be shown behind it; empty if that says nothing new.
    pub(crate) origin: &'static str,
}

/// The environment: a function so that tests need not change the process's own.
pub(crate) type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The launcher's word, if this process was launched as one of several ranks.
///
/// # Errors
///
/// Text for the user when variables are there and make no sense.
pub(crate) fn detect(env: Env<'_>) -> Result<Option<Launched>, String> {
    for launcher in LAUNCHERS {
        if let (Some(rank), Some(world)) = (env(launcher.rank), env(launcher.world)) {
            return launcher.read(env, &rank, &world).map(Some);
        }
    }
    // Slurm and MPI set one of theirs without the other where they start no ranks; torchrun never does.
    let torchrun = [("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")];
    for (name, other) in torchrun {
        if let Some(value) = env(name) {
            return Err(format!(
                "{name}={value} is set, and {other} is not\n  try: set both, with MASTER_ADDR and MASTER_PORT; or --rank R --ranks N --rendezvous HOST:PORT; or --ranks N alone to start local ranks"
            ));
        }
    }
    Ok(None)
}

struct Launcher {
    by: &'static str,
    rank: &'static str,
    world: &'static str,
    /// Variables that together name the job.
    job: &'static [&'static str],
    /// Ranks on this host.
    local: &'static str,
}

const LAUNCHERS: [Launcher; 4] = [
    Launcher {
        by: "torchrun",
        rank: "RANK",
        world: "WORLD_SIZE",
        job: &["TORCHELASTIC_RUN_ID", "MASTER_PORT"],
        local: "LOCAL_WORLD_SIZE",
    },
    Launcher {
        by: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        world: "OMPI_COMM_WORLD_SIZE",
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
        local: "OMPI_COMM_WORLD_LOCAL_SIZE",
    },
    Launcher {
        by: "Slurm",
        rank: "SLURM_PROCID",
        world: "SLURM_NTASKS",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        local: "SLURM_NTASKS_PER_NODE",
    },
    Launcher {
        by: "MPICH",
        rank: "PMI_RANK",
        world: "PMI_SIZE",
        job: &["PMI_ID", "HYDI_CONTROL_FD"],
        local: "MPI_LOCALNRANKS",
    },
];

impl Launcher {
    fn read(&self, env: Env<'_>, rank: &str, world: &str) -> Result<Launched, String> {
        let number = |name: &str, text: &str| {
            text.trim().parse::<usize>().map_err(|_| {
                format!(
                    "{name}={text:?} is not a number\n  likely: set by hand or by another program; unset it, or give --ranks to start local ranks"
                )
            })
        };
        let (r, w) = (number(self.rank, rank)?, number(self.world, world)?);
        if w == 0 || w > MAX_WORLD || r >= w {
            return Err(format!(
                "{}={r} and {}={w} make no sense: a run has 2 to {MAX_WORLD} ranks, numbered from 0",
                self.rank, self.world
            ));
        }
        let job = self.job_name(env);
        let address = self.address(env, w, &job);
        // Exactly then it comes of the first branch there.
        let beside_master = address.is_some() && master(env).is_some();
        Ok(Launched {
            by: self.by,
            rank: r,
            world: w,
            job,
            origin: if beside_master {
                " (MASTER_PORT + 1)"
            } else {
                ""
            },
            address,
        })
    }

    fn job_name(&self, env: Env<'_>) -> String {
        // MPICH's own variables differ between ranks; only its launcher's pid is shared.
        if self.by == "MPICH" {
            return format!("parent {}", std::os::unix::process::parent_id());
        }
        let parts: Vec<String> = self.job.iter().filter_map(|name| env(name)).collect();
        parts.join("/")
    }

    /// The place that all ranks can work out alone.
    fn address(&self, env: Env<'_>, world: usize, job: &str) -> Option<Address> {
        if let Some((host, port)) = master(env) {
            // torchrun's own store listens on MASTER_PORT: the next port is ours.
            let port = port.parse::<u16>().ok()?.checked_add(1)?;
            return Some(Address::Tcp(format!("{host}:{port}")));
        }
        if env(self.local).and_then(|n| n.parse().ok()) == Some(world) {
            let name = format!("ofi-perf-{}-{}-{job}", process::user_id(), self.by);
            return Some(Address::Abstract(name.chars().take(100).collect()));
        }
        if self.by == "Slurm" {
            let nodes = env("SLURM_STEP_NODELIST").or_else(|| env("SLURM_JOB_NODELIST"))?;
            let id: u64 = env("SLURM_JOB_ID")?.parse().ok()?;
            return Some(Address::Tcp(format!(
                "{}:{}",
                first_host(&nodes),
                20_000 + id % 20_000
            )));
        }
        None
    }
}

/// Host and port of torchrun's store; Slurm scripts often set them too.
fn master(env: Env<'_>) -> Option<(String, String)> {
    Some((env("MASTER_ADDR")?, env("MASTER_PORT")?))
}

/// The first host of a Slurm list: `n[01-04,7],m` is `n01`.
fn first_host(list: &str) -> String {
    let Some((prefix, rest)) = list.split_once('[') else {
        return list.split(',').next().unwrap_or_default().to_owned();
    };
    if let Some((first, _)) = prefix.split_once(',') {
        return first.to_owned();
    }
    let end = rest.find([',', '-', ']']).unwrap_or(rest.len());
    let tail = rest
        .split_once(']')
        .map_or("", |(_, t)| t.split(',').next().unwrap_or_default());
    format!("{prefix}{}{tail}", &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Result<Option<Launched>, String> {
        let find = |name: &str| {
            vars.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        };
        detect(&find)
    }

    #[test]
    fn torchrun_meets_beside_its_own_port() {
        let l = with(&[
            ("RANK", "2"),
            ("WORLD_SIZE", "4"),
            ("MASTER_ADDR", "h1"),
            ("MASTER_PORT", "29500"),
        ]);
        let l = l.unwrap().unwrap();
        assert_eq!((l.by, l.rank, l.world), ("torchrun", 2, 4));
        assert_eq!(l.address, Some(Address::Tcp("h1:29501".to_owned())));
        assert_eq!(l.origin, " (MASTER_PORT + 1)");
    }

    #[test]
    fn slurm_meets_at_the_first_node() {
        let l = with(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_JOB_ID", "41234"),
            ("SLURM_STEP_NODELIST", "trn-[07-08],x1"),
        ]);
        assert_eq!(
            l.unwrap().unwrap().address,
            Some(Address::Tcp("trn-07:21234".to_owned()))
        );
    }

    #[test]
    fn local_mpi_ranks_meet_at_a_unix_socket_named_after_the_job() {
        let l = with(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "ns7"),
        ]);
        let Some(Address::Abstract(name)) = l.unwrap().unwrap().address else {
            panic!("not an abstract socket");
        };
        assert!(name.contains("ns7"), "{name}");
        let far = with(&[
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "2"),
            ("MPI_LOCALNRANKS", "1"),
        ]);
        assert_eq!(far.unwrap().unwrap().address, None);
    }

    #[test]
    fn nonsense_is_an_error_and_absence_is_none() {
        assert_eq!(with(&[]), Ok(None));
        assert_eq!(with(&[("SLURM_NTASKS", "2")]), Ok(None));
        for (r, w) in [
            ("x", "2"),
            ("2", "2"),
            ("0", "0"),
            ("0", "100000"),
            ("-1", "2"),
        ] {
            assert!(with(&[("RANK", r), ("WORLD_SIZE", w)]).is_err(), "{r} {w}");
        }
    }

    /// Two ranks that were started by hand would each start two of their own.
    #[test]
    fn half_of_the_variables_is_an_error_that_names_the_other_half() {
        for (set, unset) in [("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")] {
            let error = with(&[(set, "1")]).unwrap_err();
            assert!(
                error.starts_with(&format!("{set}=1 is set, and {unset} is not")),
                "{error}"
            );
            assert!(error.contains("--ranks N alone"), "{error}");
            // A launcher that says both counts.
            let both = [(set, "1"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
            assert_eq!(with(&both).unwrap().unwrap().by, "MPICH");
        }
    }

    #[test]
    fn host_lists_are_unfolded_as_far_as_the_first_host() {
        for (list, first) in [
            ("a", "a"),
            ("a,b", "a"),
            ("n[01-04,7],m", "n01"),
            ("n[3]", "n3"),
            ("n[1-2].x,m", "n1.x"),
            ("a,n[1-2]", "a"),
            ("n[", "n"),
        ] {
            assert_eq!(first_host(list), first, "{list}");
        }
    }
}
