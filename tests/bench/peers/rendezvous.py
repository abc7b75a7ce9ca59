"""rendezvous.py NODES: torchrun's own c10d rendezvous handlers, one process a node, all imported and warm. Prints the
seconds from the last node's call of next_rendezvous to the last one's return."""

import multiprocessing
import socket
import sys
import time


def node(number, count, port, imported, others_wait, results):
    from torch.distributed.elastic.rendezvous import RendezvousParameters, c10d_rendezvous_backend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
    parameters = RendezvousParameters(backend="c10d", endpoint=f"127.0.0.1:{port}", run_id="bench", min_nodes=count,
                                      max_nodes=count, local_addr="127.0.0.1", is_host=number == 0)
    if number != 0:
        others_wait.wait()
    backend, store = c10d_rendezvous_backend.create_backend(parameters)
    handler = create_handler(store, backend, parameters)
    if number == 0:
        others_wait.set()
    imported.wait()
    if number == count - 1:
        time.sleep(3)
    began = time.monotonic()
    handler.next_rendezvous()
    results.put((number, began, time.monotonic()))
    imported.wait()  # the store's host must not leave before the others are done


def main():
    count = int(sys.argv[1])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    imported, others_wait, results = context.Barrier(count), context.Event(), context.Queue()
    nodes = [context.Process(target=node, args=(i, count, port, imported, others_wait, results)) for i in range(count)]
    for each in nodes:
        each.start()
    times = [results.get(timeout=120) for _ in nodes]
    for each in nodes:
        each.join()
    last_join = max(began for _, began, _ in times)
    print(max(ended for _, _, ended in times) - last_join)


if __name__ == "__main__":
    main()
