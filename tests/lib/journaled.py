"""A program with a journal, to be killed: `python journaled.py publish|receive URL DATABASE [LAST]`.

It says `up` once it is connected. `publish` numbers its messages, odd ones with QoS 1 and even ones with QoS 2, and ends at
LAST; without LAST it goes on until it is killed. `receive` notes each message in the table `seen`, and ends with the message
`end`.
"""

from __future__ import annotations

import asyncio
import sys

from wirefmt import mqtt

WINDOW = 20  # calls of publish that wait at a time


async def publish(url: str, database: str, last: int | None) -> None:
    client = mqtt.connect(url, client_identifier="publisher", journal=database, session_expiry_interval=3600)
    async with client:
        assert client.journal is not None
        print("up", flush=True)
        number = client.journal.count
        waiting: set[asyncio.Task[int]] = set()
        while last is None or number < last:
            waiting.add(asyncio.create_task(client.publish(f"kill/{number % 2}", b"%d" % number, qos=2 - number % 2)))
            number += 1
            if len(waiting) >= WINDOW:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        if waiting:
            await asyncio.wait(waiting)
        while client.session.outgoing:  # of earlier processes
            await asyncio.sleep(0.01)
        print(number, client.lost, flush=True)


async def receive(url: str, database: str) -> None:
    client = mqtt.connect(
        url,
        client_identifier="receiver",
        journal=database,
        session_expiry_interval=3600,
        acknowledge="manual",
        # mosquitto 2.0.11 exceeds a smaller Receive Maximum when it resumes a session
        options=mqtt.ConnectionOptions(receive_maximum=65535),
    )
    async with client:
        assert client.journal is not None
        client.journal.add("CREATE TABLE IF NOT EXISTS seen (qos, number)")
        await client.subscribe("kill/+", qos=2)
        print("up", flush=True)
        async for message in client.messages():
            said = message.payload_bytes()
            record = ("INSERT INTO seen VALUES (?, ?)", (message.qos, said.decode()))
            client.acknowledge(message, record=record)
            if said == b"end":
                break


if __name__ == "__main__":
    deed, url, database = sys.argv[1:4]
    if deed == "publish":
        asyncio.run(publish(url, database, int(sys.argv[4]) if len(sys.argv) > 4 else None))
    else:
        asyncio.run(receive(url, database))
