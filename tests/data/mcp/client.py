"""Talks to `evo mcp` with the official client library and checks what comes back.

usage: client.py EVO FOLDER MODE     MODE: `legacy` (sessions) or `2026-07-28` (a version in each request)
"""

import asyncio
import os
import sys

from mcp import StdioServerParameters
from mcp.client import Client


async def main(evo, folder, mode):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, message))

    words = ["mcp", "--device", "host", "--out", "kept"]
    # The library hands a server only a few variables of the environment.
    environment = {"EVO_CACHE_DIR": os.environ["EVO_CACHE_DIR"]}
    server = StdioServerParameters(command=evo, args=words, cwd=folder, env=environment)
    async with Client(server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        print("tools", " ".join(tools))

        described = await client.call_tool("describe", {"space": "rows.toml"})
        print("describe", described.is_error, described.structured_content["valid"])

        explained = await client.call_tool("explain", {"verdict": "hang"})
        print("explain", explained.is_error, explained.structured_content["verdict"])

        good = await client.call_tool(
            "evaluate", {"space": "rows.toml", "level": "tiny"}, progress_callback=hear
        )
        print("good", good.is_error, good.structured_content["verdict"], good.structured_content["level_reached"])

        source = open(f"{folder}/rows.cu").read().replace("1e-6f)", "1.0f)")
        wrong = await client.call_tool("evaluate", {"space": "rows.toml", "level": "tiny", "source": source})
        print("wrong", wrong.is_error, wrong.structured_content["verdict"])

        mistake = await client.call_tool("describe", {"spaec": "rows.toml"})
        print("mistake", mistake.is_error, mistake.content[0].text)

        missing = await client.call_tool("describe", {"space": "nowhere.toml"})
        print("missing", missing.is_error, missing.content[0].text)

    grows = all(a[0] < b[0] for a, b in zip(heard, heard[1:]))
    print("progress grows", grows)


asyncio.run(main(*sys.argv[1:]))
