"""rendezvous.py NODES ROUNDS: torchrun's own c10d rendezvous handlers, one process a node, all imported and warm. Prints,
for each round, the seconds from the last node's call of next_rendezvous to the last one's return."""

import multiprocessing
import socket
import sys
import time

OTHERS_ARE_WAITING_S = 1.5  # c10d: a random delay of up to 0.3 s, then a look once a second


def node(number, count, ports, store_is_up, in_step, results):
    from torch.distributed.elastic.rendezvous import RendezvousParameters, c10d_rendezvous_backend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
    for attempt, port in enumerate(ports):
        parameters = RendezvousParameters(backend="c10d", endpoint=f"127.0.0.1:{port}", run_id="bench", min_nodes=count,
                                          max_nodes=count, local_addr="127.0.0.1", is_host=number == 0)
        if number != 0:
            store_is_up[attempt].wait()
        backend, store = c10d_rendezvous_backend.create_backend(parameters)
        handler = create_handler(store, backend, parameters)
        if number == 0:
            store_is_up[attempt].set()
        in_step.wait()
        if number == count - 1:
            time.sleep(OTHERS_ARE_WAITING_S)
        began = time.monotonic()
        handler.next_rendezvous()
        results.put((attempt, began, time.monotonic()))
        in_step.wait()  # the store's host must not leave before the others are done


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def main():
    count, rounds = int(sys.argv[1]), int(sys.argv[2])
    ports = free_ports(rounds)
    context = multiprocessing.get_context("spawn")
    in_step, results = context.Barrier(count), context.Queue()
    store_is_up = [context.Event() for _ in range(rounds)]
    nodes = [context.Process(target=node, args=(i, count, ports, store_is_up, in_step, results)) for i in range(count)]
    for each in nodes:
        each.start()
    times = [results.get(timeout=120) for _ in range(rounds * count)]
    for each in nodes:
        each.join()
    for attempt in range(rounds):
        last_join = max(began for which, began, _ in times if which == attempt)
        print(max(ended for which, _, ended in times if which == attempt) - last_join)


if __name__ == "__main__":
    main()
