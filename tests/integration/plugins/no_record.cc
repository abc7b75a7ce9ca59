int nothing_for_ddprun();
int nothing_for_ddprun() { return 1; }
