"""A real Slurm: a controller on this machine, and a slurmd on each host."""

import os
import pathlib
import subprocess
import time

from hosts import HEAD, Site, sh

CONFIG = """
ClusterName=lab
SlurmctldHost={machine}({head})
SlurmctldPort=16917
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=3
MessageTimeout=3
KillWait=4
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=usual Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9
"""


class SlurmSite(Site):
    def __init__(self, names, ddprun, python=None):
        super().__init__(names, ddprun, python)
        self.controller = None
        try:
            self.start_slurm()
        except BaseException:
            self.__exit__()
            raise

    def start_slurm(self):
        folder = pathlib.Path(self.folder) / "slurm"
        (folder / "state").mkdir(parents=True)
        sh("ip", "addr", "add", f"{HEAD}/24", "dev", self.bridge)
        nodes = "\n".join(f"NodeName={name} NodeAddr={host.addresses[0]} Port=16918 CPUs=8 RealMemory=1000 State=UNKNOWN"
                          for name, host in self.hosts.items())
        text = CONFIG.format(machine=os.uname().nodename, head=HEAD, folder=folder, nodes=nodes)
        (folder / "slurm.conf").write_text(text)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.slurm = folder
        self.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        self.controller = subprocess.Popen(["/usr/sbin/slurmctld", "-D", "-c"], env=self.environment, start_new_session=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in self.hosts:
            self.start_slurmd(name)
        self.until(lambda: set(self.ask("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"}, 15, "idle nodes")

    def start_slurmd(self, name):
        (self.slurm / f"spool.{name}").mkdir(exist_ok=True)
        self[name].run("bash", "-c", f"/usr/sbin/slurmd -D -N {name} & wait")

    def ask(self, *words, **environment):
        done = subprocess.run(words, env=self.environment | environment, cwd=self.shared, capture_output=True, text=True)
        return (done.stdout + done.stderr).strip()

    def state(self, job):
        """PENDING, RUNNING, COMPLETED, FAILED …, and what scontrol says of the job."""
        facts = dict(word.split("=", 1) for word in self.ask("scontrol", "show", "job", "-o", str(job)).split() if "=" in word)
        return facts.get("JobState", "UNKNOWN"), facts

    def until(self, check, within, what):
        end = time.monotonic() + within
        while not (result := check()):
            if time.monotonic() > end:
                raise AssertionError(f"no {what} within {within} s\n" + self.ask("squeue", "-l") + "\n" + self.ask("sinfo", "-lN")
                                     + "\n" + self.output())
            time.sleep(0.1)
        return result

    def output(self):
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')}" for file in sorted(self.shared.glob("*.out")))

    def __exit__(self, *_):
        if self.controller:
            self.controller.kill()
            self.controller.wait()
        super().__exit__()
