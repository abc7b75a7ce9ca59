"""A real sshd on every host, with keys of their own."""

from hosts import Site, sh

SSHD = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PidFile none
SetEnv PATH={path} TMPDIR={tmp} PYTHON_EXEC={python}
"""
CLIENT = """
Host *
  User root
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


class SshSite(Site):
    """node-a, node-b, … each with an sshd, and `client` with the keys."""

    def __init__(self, names, ddprun, python=None):
        super().__init__([*names, "client"], ddprun, python)
        try:
            self.start_daemons(names, python)
        except BaseException:
            self.__exit__()
            raise

    def start_daemons(self, names, python):
        for key in ("host_key", "user_key"):
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/{key}")
        daemon, client = f"{self.folder}/sshd_config", f"{self.folder}/ssh_config"
        with open(daemon, "w") as file:
            file.write(SSHD.format(folder=self.folder, path=self.environment["PATH"], tmp=self.folder, python=python or "python3"))
        with open(client, "w") as file:
            file.write(CLIENT.format(folder=self.folder))
        self.environment["DDPRUN_SSH"] = f"ssh -F {client}"
        # sshd wants its empty directory in /run: in a /run of this host alone.
        for name in names:
            self[name].run("sh", "-c", f"mount -t tmpfs none /run; mkdir /run/sshd; exec /usr/sbin/sshd -D -e -f {daemon}")
            self[name].processes[0].expect("Server listening on 0.0.0.0")
