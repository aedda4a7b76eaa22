"""The page without a browser: who is let in, what each role may do, numbers that equal --output json, live events."""

import gzip
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import unittest

from cluster import HARMONICS, ClusterTest, TIMEOUT_S, environment

TOKENS = {'root0': 'admin', 'ann': 'submit', 'bob': 'submit', 'vic': 'view', 'wrk': 'worker'}


def token_of(user):
    return f'the-token-of-{user}-which-nobody-knows'


class Browser:
    """As a browser would: cookies are kept, and the action token is shown."""

    def __init__(self, port, context=None):
        self.port = port
        self.context = context
        self.cookie = None
        self.action = None

    def connection(self):
        if self.context:
            return http.client.HTTPSConnection('localhost', self.port, timeout=TIMEOUT_S, context=self.context)
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=TIMEOUT_S)

    def call(self, method, path, body=None, **headers):
        """(status, headers, text)"""
        sent = {name.replace('_', '-'): value for name, value in headers.items()}
        if self.cookie:
            sent.setdefault('Cookie', self.cookie)
        connection = self.connection()
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def login(self, token):
        status, headers, text = self.call('POST', '/api/login', {'token': token}, Content_Type='application/json')
        if status == 200:
            self.cookie = headers['Set-Cookie'].split(';')[0]
            self.action = json.loads(text)['action']
        return status, headers, text

    def get(self, path):
        status, _, text = self.call('GET', path)
        assert status == 200, (path, status, text)
        return json.loads(text)

    def post(self, path, body, **headers):
        """(status, JSON)"""
        headers.setdefault('X_Harmonics_Action', self.action or '')
        status, _, text = self.call('POST', path, body, Content_Type='application/json', **headers)
        return status, json.loads(text)


class Events:
    """Server-sent events, one after another."""

    def __init__(self, browser, arguments='', **headers):
        self.connection = browser.connection()
        self.connection.request('GET', '/api/events' + arguments,
                                headers={'Cookie': browser.cookie, **{k.replace('_', '-'): v for k, v in headers.items()}})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.status

    def next(self):
        """(kind, JSON, id); what is no event is skipped."""
        kind = number = data = None
        while True:
            line = self.answer.readline()
            if line == b'':
                return None, None, None
            line = line.decode().rstrip('\n')
            if line.startswith('event: '):
                kind = line[7:]
            elif line.startswith('data: '):
                data = json.loads(line[6:])
            elif line.startswith('id: '):
                number = line[4:]
            elif line == '' and kind:
                return kind, data, number

    def until(self, wanted):
        while True:
            event = self.next()
            assert event[0], 'the stream has ended'
            if wanted(*event[:2]):
                return event

    def close(self):
        self.connection.close()


class PageTest(ClusterTest):
    def start_with_page(self, *arguments):
        tokens = self.folder / 'tokens'
        if not tokens.exists():
            tokens.write_text(''.join(f'{role} {user} {token_of(user)}\n' for user, role in TOKENS.items()))
            tokens.chmod(0o600)
        self.server = self.start_server('--http', getattr(self, 'page_port', 0), '--tokens', tokens, *arguments)
        line = self.until(lambda: re.search(r'the page is on https?://\S+?:(\d+)/', self.printed(self.server)), 'the page')
        self.page_port = int(line.group(1))

    def browser(self, user):
        browser = Browser(self.page_port)
        status, _, text = browser.login(token_of(user))
        self.assertEqual(status, 200, text)
        return browser

    def submitted_as(self, user, text):
        token = self.folder / f'{user}.token'
        token.write_text(token_of(user))
        token.chmod(0o600)
        return self.script(text, flags=['--token-file', token])

    # Who is let in.

    def test_a_stranger_sees_nothing_but_the_login(self):
        self.start_with_page()
        self.start_worker('--id', 'a-machine')
        task = self.script('echo secret', name='a-secret-name')
        self.wait(task)
        stranger = Browser(self.page_port)
        for path in ('status', 'workers', 'quotas', 'tasks', f'task?id={task}', f'why?id={task}', f'graph?id={task}',
                     f'output?id={task}', 'events', 'session', 'nothing'):
            status, _, text = stranger.call('GET', '/api/' + path)
            self.assertEqual((status, text), (401, '{"error":"log in first"}\n'), path)
        for path in ('submit', 'cancel', 'retry', 'drain', 'quota', 'priority', 'logout'):
            status, _, text = stranger.call('POST', '/api/' + path, {'task': task})
            self.assertEqual((status, text), (401, '{"error":"log in first"}\n'), path)
        # Nor are there numbers for strangers, or for who may only see their own.
        for path in ('/metrics', '/status'):
            for headers in ({}, {'Authorization': 'Bearer nonsense'}, {'Authorization': 'Basic eDp5'}):
                status, answer, text = stranger.call('GET', path, **headers)
                self.assertEqual((status, answer['WWW-Authenticate']), (401, 'Bearer'), (path, headers))
                self.assertNotIn('harmonics_', text)
        packed = 0
        for path in ('/', '/index.html', '/page.js', '/page.css', '/icon.svg'):
            status, headers, text = stranger.call('GET', path)
            self.assertEqual(status, 200, path)
            packed += len(gzip.compress(text.encode()))
            self.assertIn("default-src 'none'", headers['Content-Security-Policy'])
            for word in ('a-secret-name', 'a-machine', 'http://', 'https://'):
                self.assertNotIn(word, text.replace('http://www.w3.org', ''), path)
        self.assertLess(packed, 300_000, 'the whole page, compressed')
        for cookie in ('x', 'ab' * 100, ''):
            status, _, _ = stranger.call('GET', '/api/tasks', Cookie=f'harmonics_session_{self.page_port}={cookie}')
            self.assertEqual(status, 401)

    def test_the_login_takes_tokens_that_may_look(self):
        self.start_with_page()
        browser = Browser(self.page_port)
        self.assertEqual(browser.login('wrong')[0], 401)
        self.assertEqual(browser.login('x' * 100000)[0], 401)
        self.assertEqual(browser.login(token_of('wrk'))[0], 403)
        status, _, _ = browser.call('POST', '/api/login', {'token': token_of('ann')}, Content_Type='text/plain')
        self.assertEqual(status, 400, 'a form of another site cannot log anyone in')
        status, headers, text = browser.login(token_of('ann'))
        self.assertEqual(status, 200)
        for word in ('HttpOnly', 'SameSite=Strict', 'Path=/'):
            self.assertIn(word, headers['Set-Cookie'])
        self.assertNotIn(token_of('ann'), str(headers) + text)
        told = json.loads(text)
        self.assertEqual((told['user'], told['submit'], told['view'], told['admin']), ('ann', True, False, False))
        self.assertNotIn('the-token-of', self.printed(self.server))
        # A token that is let in no longer opens nothing, also with a cookie of before.
        tokens = self.folder / 'tokens'
        tokens.write_text(f'view vic {token_of("vic")}\n')
        self.until(lambda: browser.call('GET', '/api/tasks')[0] == 401, 'the cookie to be refused')

    def test_the_session_outlives_the_server_and_ends_with_a_logout(self):
        self.start_with_page()
        browser = self.browser('ann')
        self.kill(self.server)
        self.start_with_page()
        self.assertEqual(browser.get('/api/session')['user'], 'ann')
        status, headers, _ = browser.call('POST', '/api/logout', {}, X_Harmonics_Action=browser.action)
        self.assertEqual(status, 200)
        self.assertIn('Max-Age=0', headers['Set-Cookie'])

    def test_metrics_are_for_those_who_see_everything(self):
        self.start_with_page()
        stranger = Browser(self.page_port)
        for user, wanted in {'root0': 200, 'vic': 200, 'ann': 403, 'wrk': 403}.items():
            for path in ('/metrics', '/status'):
                with self.subTest(user + path):
                    status, _, text = stranger.call('GET', path, Authorization=f'Bearer {token_of(user)}')
                    self.assertEqual(status, wanted, text)
        self.assertIn('harmonics_tasks', self.browser('vic').call('GET', '/metrics')[2])  # logged in, by the cookie
        self.kill(self.server, signal.SIGTERM)
        self.start_with_page('--metrics-open')
        self.assertEqual([stranger.call('GET', path)[0] for path in ('/metrics', '/status', '/api/status')], [200, 200, 401])

    def test_https_where_the_cluster_speaks_tls(self):
        folder = self.folder / 'certificates'
        self.call_plain('server', '--init', folder, '--init-host', 'localhost')
        self.start_with_page('--tls', folder)
        self.assertIn('the page is on https://', self.printed(self.server))
        context = ssl.create_default_context(cafile=str(folder / 'ca.pem'))
        browser = Browser(self.page_port, context)
        status, headers, _ = browser.login(token_of('vic'))
        self.assertEqual(status, 200)
        self.assertIn('; Secure', headers['Set-Cookie'])
        self.assertEqual(browser.get('/api/status')['workers'], 0)
        with socket.create_connection(('127.0.0.1', self.page_port), timeout=TIMEOUT_S) as plain:
            plain.sendall(b'GET / HTTP/1.1\r\n\r\n')
            self.assertNotIn(b'200 OK', plain.recv(100))

    def call_plain(self, *words):
        subprocess.run([str(HARMONICS), *map(str, words)], check=True, capture_output=True, cwd=self.folder,
                       env=environment(self.folder), timeout=TIMEOUT_S)

    # What is told.

    def test_numbers_equal_those_of_the_command_line(self):
        self.start_with_page()
        self.start_worker('--id', 'gpu-1')
        done = self.script('echo out; echo err >&2; echo "{\\"loss\\": 0.5}" >&$HARMONICS_PROGRESS_FD; exit 3', name='<b>&"\u202e')
        self.wait(done)
        waits = self.script('true', gpus=64, flags=['--wait-for-machines'])
        self.until_state(waits, 'pending')
        browser = self.browser('root0')
        self.assertEqual(browser.get(f'/api/task?id={done}'), self.task(done))
        self.assertEqual(browser.get(f'/api/why?id={waits}'), self.json('why', waits))
        listed = browser.get('/api/tasks?order=oldest')
        self.assertEqual(listed['tasks'], self.json('tasks'))
        self.assertEqual(listed['next'], 0)
        self.assertEqual([one['id'] for one in browser.get('/api/tasks?limit=1')['tasks']], [waits])
        self.assertEqual([one['id'] for one in browser.get('/api/tasks?state=failed&worker=gpu-1')['tasks']], [done])
        self.assertEqual(browser.get('/api/quotas'), self.json('quota'))
        monitor = self.json('monitor')
        status = browser.get('/api/status')
        self.assertEqual(status, {key: monitor[key] for key in status})

        def workers_agree():
            return browser.get('/api/workers') == self.json('workers')
        self.until(workers_agree, 'a moment between two heartbeats')
        for stream, text in (('out', 'out\n'), ('err', 'err\n'), ('metrics', '{"loss": 0.5}\n')):
            code, headers, got = browser.call('GET', f'/api/output?id={done}&stream={stream}')
            self.assertEqual((code, got), (200, text))
            self.assertEqual(headers['Content-Type'], 'application/octet-stream', 'no browser shows it')
        self.assertEqual(browser.call('GET', f'/api/output?id={done}&offset=2')[2], 't\n')

    def test_questions_that_are_wrong_are_said_to_be(self):
        self.start_with_page()
        browser = self.browser('vic')
        for path, code, text in (('task', 400, 'say which task'), ('task?id=x', 400, "'x' is no number"),
                                 ('task?id=99', 404, 'there is no task 99'), ('nothing', 404, 'no such question'),
                                 ('tasks?limit=100000', 400, 'limit'), ('output?id=9', 404, 'there is no task 9'),
                                 ('tasks?worker=%zz', 400, '%zz')):
            status, _, answer = browser.call('GET', '/api/' + path)
            self.assertEqual(status, code, path)
            self.assertIn(text, json.loads(answer)['error'])
        self.assertEqual(browser.call('PUT', '/api/tasks')[0], 405)
        self.assertEqual(browser.call('DELETE', '/')[0], 405)

    def test_long_output_is_cut_and_its_tail_is_found(self):
        self.start_with_page()
        self.start_worker(gpus=0)
        task = self.script('head -c 3000000 /dev/zero | tr "\\0" x; echo the end')
        self.wait(task)
        browser = self.browser('root0')
        _, headers, text = browser.call('GET', f'/api/output?id={task}')
        self.assertEqual((len(text), headers['X-Harmonics-Offset']), (1 << 20, '0'))
        _, headers, text = browser.call('GET', f'/api/output?id={task}&tail=1')
        self.assertTrue(text.endswith('xthe end\n'))
        self.assertEqual(int(headers['X-Harmonics-Offset']) + len(text), 3000000 + len('the end\n'))

    def test_artifacts_are_listed_and_handed_over(self):
        self.start_with_page()
        self.start_worker(gpus=0)
        task = self.script('echo kept > kept.txt', flags=['--artifact', '*.txt'])
        self.wait(task)
        browser = self.browser('root0')
        _, _, text = browser.call('GET', f'/api/output?id={task}&stream=artifacts')
        self.assertEqual([json.loads(text)], self.json('artifacts', task))
        _, headers, text = browser.call('GET', f'/api/output?id={task}&stream=artifact&path=kept.txt')
        self.assertEqual(text, 'kept\n')
        self.assertEqual(headers['Content-Disposition'], 'attachment')
        self.assertEqual(browser.call('GET', f'/api/output?id={task}&stream=artifact&path=../state')[0], 409)

    def test_users_see_their_own_and_viewers_no_values(self):
        self.start_with_page()
        task = self.submitted_as('ann', 'true')
        hers = int(self.done('submit', '--token-file', self.folder / 'ann.token', '--output', 'quiet', '--name', 'hers',
                             '--env', 'SECRET=word', '--gpus', 0, '--', 'true'))
        ann, bob, vic = map(self.browser, ('ann', 'bob', 'vic'))
        self.assertEqual(len(ann.get('/api/tasks')['tasks']), 2)
        self.assertEqual(bob.get('/api/tasks')['tasks'], [])
        self.assertEqual(bob.call('GET', f'/api/task?id={task}')[0], 404)
        self.assertEqual(bob.call('GET', f'/api/output?id={task}')[0], 404)
        self.assertEqual(ann.get(f'/api/task?id={hers}')['spec']['env'], {'SECRET': 'word'})
        self.assertEqual(vic.get(f'/api/task?id={hers}')['spec']['env'], {'SECRET': '(hidden)'})
        events = Events(bob)
        self.addCleanup(events.close)
        kind, told, _ = events.next()
        self.assertEqual((kind, told['tasks'], told['happened']), ('snapshot', {}, []))
        events = Events(vic, f'?task={hers}')
        self.addCleanup(events.close)
        self.assertEqual(len(events.next()[1]['tasks']), 2)
        self.assertEqual(events.until(lambda kind, _: kind == 'task')[1]['spec']['env'], {'SECRET': '(hidden)'})

    def test_a_report_holds_all_of_a_task(self):
        self.start_with_page()
        self.start_worker(gpus=0)
        task = self.script('echo "</script><script>"; echo bad >&2; echo "{\\"loss\\": 0.5}" >&$HARMONICS_PROGRESS_FD', name='</script>')
        self.wait(task)
        told = self.json('report', task, '-o', self.folder / 'report.html')
        page = (self.folder / 'report.html').read_text()
        self.assertEqual(told, {'file': str(self.folder / 'report.html'), 'bytes': len(page.encode())})
        self.assertEqual(page.count('</script>'), 2, 'what a task is called ends no script')
        data = json.loads(re.search(r'id="report">(.*?)</script>', page, re.DOTALL).group(1))
        self.assertEqual(data['answers'][f'/api/task?id={task}'], self.task(task))
        output = data['answers'][f'/api/output?id={task}&stream=out&attempt=0&rank=0']
        self.assertEqual(output, {'offset': 0, 'text': '</script><script>\n'})
        self.assertEqual(data['answers'][f'/api/output?id={task}&stream=metrics&attempt=0&rank=0']['text'], '{"loss": 0.5}\n')
        for word in ('src=', 'href="page', 'http://', 'https://'):
            self.assertNotIn(word, page.replace('http://www.w3.org', '').split('<script>')[0], word)
        self.assert_fails(self.call('report', 99), 'there is no task 99')

    # What is done.

    def test_each_action_by_role(self):
        self.start_with_page()
        self.start_worker('--id', 'gpu-1')
        hers = self.submitted_as('ann', self.held())
        spec = {'name': 'from-the-page', 'required_gpus': 0, 'command': ['true']}
        actions = {  # who may: the body
            '/api/submit': (('root0', 'ann', 'bob'), spec),
            '/api/drain': (('root0',), {'worker': 'gpu-1', 'drain': False}),
            '/api/quota': (('root0',), {'user': 'bob', 'max_gpus': 3, 'weight': 2}),
            '/api/retry': (('root0', 'ann'), {'task': hers}),
            '/api/priority': (('root0', 'ann'), {'task': hers, 'priority': -4}),
            '/api/cancel': (('root0', 'ann'), {'task': hers}),
        }
        for path, (allowed, body) in actions.items():
            for user in ('vic', 'bob', 'ann', 'root0'):
                browser = self.browser(user)
                # Without the action token, with another's, and as a form of another site would send it: refused for all.
                for action in ('', self.browser(user).action, 'x' * 64):
                    self.assertEqual(browser.post(path, body, X_Harmonics_Action=action)[0], 403, (path, user))
                if path == '/api/cancel' and user == 'root0':
                    continue  # ann has cancelled it
                status, answer = browser.post(path, body)
                if user in allowed:
                    self.assertEqual(status, 200, (path, user, answer))
                else:
                    self.assertIn(status, (403, 404), (path, user, answer))
        self.assertEqual(self.wait(hers)['cancelled'], 1)
        self.assertEqual(self.task(hers)['spec']['priority'], -4)
        bob = next(one for one in self.json('quota') if one['user'] == 'bob')
        self.assertEqual((bob['max_gpus'], bob['weight']), (3, 2))
        self.assertEqual(self.browser('root0').post('/api/drain', {'worker': 'gpu-1', 'drain': True})[0], 200)
        self.assertTrue(self.json('workers')[0]['draining'])

    def test_what_is_submitted_runs_and_runs_again(self):
        self.start_with_page()
        self.start_worker(gpus=0)
        ann = self.browser('ann')
        status, made = ann.post('/api/submit', {'name': 'a', 'required_gpus': 0, 'command': ['echo', 'kept']})
        self.assertEqual((status, made['count'], made['advice']), (200, 1, ''))
        self.wait(made['task'])
        task = ann.get(f'/api/task?id={made["task"]}')
        self.assertEqual((task['state'], task['user']), ('succeeded', 'ann'))
        status, again = ann.post('/api/retry', {'task': made['task']})
        self.assertEqual(status, 200)
        self.assertNotEqual(again['task'], made['task'])
        self.wait(again['task'])
        self.assertEqual(ann.get(f'/api/task?id={again["task"]}')['spec'], task['spec'])
        for body, text in (({'name': 'a', 'priority': 5}, 'priority 5 is above 0'), ({'name': 'a', 'nmae': 1}, 'nmae'),
                           ({'name': 'a', 'required_gpus': -1}, 'required_gpus')):
            status, answer = ann.post('/api/submit', body)
            self.assertIn(status, (400, 403))
            self.assertIn(text, answer['error'])

    # What is live.

    def test_live_events_and_what_comes_after_a_break(self):
        self.start_with_page()
        self.start_worker('--id', 'gpu-1')
        browser = self.browser('root0')
        events = Events(browser)
        self.addCleanup(events.close)
        kind, whole, first = events.next()
        self.assertEqual(kind, 'snapshot')
        self.assertEqual(whole['workers']['gpu-1']['state'], 'ready')
        self.assertEqual(whole['workers']['gpu-1']['devices'], self.json('workers')[0]['devices'])
        task = self.script(self.held())
        _, _, seen = events.until(lambda kind, told: told.get('tasks', {}).get(str(task), {}).get('state') == 'active')
        events.close()
        self.release()
        self.wait(task)
        # Whoever comes back is told what was missed and no more; where that is not known, everything.
        events = Events(browser, Last_Event_ID=seen)
        self.addCleanup(events.close)
        kind, told, _ = events.until(lambda kind, told: str(task) in told.get('tasks', {}))
        self.assertEqual((kind, told['tasks'][str(task)]['state']), ('delta', 'succeeded'))
        kinds = [one['kind'] for one in told.get('happened', [])]
        self.assertIn('succeeded', kinds)
        other = Events(browser, '?last=99.x-5')
        self.addCleanup(other.close)
        self.assertEqual(other.next()[0], 'snapshot')
        self.assertNotEqual(first, seen)
        # After a restart the ids of before are another server's.
        self.kill(self.server)
        self.drain(events)
        self.start_with_page()
        again = Events(browser, Last_Event_ID=seen)
        self.addCleanup(again.close)
        kind, whole, _ = again.next()
        self.assertEqual((kind, whole['tasks'][str(task)]['state']), ('snapshot', 'succeeded'))

    @staticmethod
    def drain(events):
        try:
            while events.next()[0]:
                pass
        except (ConnectionError, http.client.HTTPException):
            pass

    def test_watchers_have_a_ceiling(self):
        self.start_with_page()
        browser = self.browser('vic')
        held = []
        for _ in range(100):
            held.append(Events(browser))
            self.addCleanup(held[-1].close)
        status, _, text = browser.call('GET', '/api/events')
        self.assertEqual(status, 503)
        self.assertIn('100 watch already', text)


if __name__ == '__main__':
    unittest.main()
