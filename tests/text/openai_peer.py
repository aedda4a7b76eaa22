"""Asks a service through the `openai` package: openai_peer.py PORT. Sixteen clients at once, streaming and not."""

import concurrent.futures
import sys

import openai

CLIENTS = 16


def client():
    return openai.OpenAI(base_url=f"http://127.0.0.1:{sys.argv[1]}/v1", api_key="none", max_retries=0, timeout=120)


def asked(number, stream):
    words = {"model": client().models.list().data[0].id, "max_tokens": 8 + number, "temperature": 0.8, "seed": number,
             "messages": [{"role": "user", "content": f"Number {number}"}]}
    if not stream:
        answer = client().chat.completions.create(**words)
        assert answer.usage.completion_tokens <= 8 + number
        return answer.choices[0].message.content
    pieces = client().chat.completions.create(**words, stream=True)
    return "".join(piece.choices[0].delta.content or "" for piece in pieces)


def main():
    alone = [asked(number, False) for number in range(CLIENTS)]
    assert len(set(alone)) == CLIENTS, alone
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        together = list(pool.map(lambda number: asked(number, number % 2 == 1), range(CLIENTS)))
    assert together == alone, (together, alone)
    answer = client().chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}], max_tokens=3,
                                              temperature=0, logprobs=True, top_logprobs=2)
    for token in answer.choices[0].logprobs.content:
        assert len(token.top_logprobs) == 2 and token.logprob <= 0, token
    text = client().completions.create(model="small", prompt="abc", max_tokens=5, temperature=0)
    pieces = client().completions.create(model="small", prompt="abc", max_tokens=5, temperature=0, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == text.choices[0].text
    try:
        client().chat.completions.create(model="other", messages=[{"role": "user", "content": "x"}])
    except openai.NotFoundError as error:
        assert "no model 'other'" in str(error), error
    else:
        raise AssertionError("a model that is not there answered")


main()
