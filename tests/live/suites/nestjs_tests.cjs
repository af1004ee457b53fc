// NestJS's microservices with the broker, over AMQP 0.9.1 and MQTT: programs of ours in the manner of its documentation, without the
// syntax of decorators. Over AMQP 0.9.1 answers come by direct reply-to.
require('reflect-metadata');
const assert = require('node:assert');
const { Controller, Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { Transport, MessagePattern, EventPattern, Payload, ClientProxyFactory } = require('@nestjs/microservices');
const { firstValueFrom, from, toArray } = require('rxjs');

const arrived = [];

class Sums {
  sum(numbers) { return numbers.reduce((one, other) => one + other, 0); }
  each(numbers) { return from(numbers); }
  fail() { throw new Error('on purpose'); }
  log(data) { arrived.push(data); }
}

class App {}

for (const [decorator, name] of [
  [MessagePattern('sum'), 'sum'], [MessagePattern('each'), 'each'], [MessagePattern('fail'), 'fail'], [EventPattern('log'), 'log'],
]) {
  decorator(Sums.prototype, name, Object.getOwnPropertyDescriptor(Sums.prototype, name));
  Payload()(Sums.prototype, name, 0);
}
Controller()(Sums);
Module({ controllers: [Sums] })(App);

const urls = ['amqp://guest:guest@127.0.0.1:5672'];
const url = 'mqtt://127.0.0.1:1883';
const quorum = { durable: true, arguments: { 'x-queue-type': 'quorum' } };
const SERVICES = {
  'a queue': { transport: Transport.RMQ, options: { urls, queue: 'one', queueOptions: { durable: false } } },
  'a quorum queue': { transport: Transport.RMQ, options: { urls, queue: 'two', prefetchCount: 5, queueOptions: quorum } },
  'a topic exchange': { transport: Transport.RMQ, options: { urls, queue: 'three', wildcards: true, queueOptions: { durable: false } } },
  'MQTT 3.1.1': { transport: Transport.MQTT, options: { url } },
  'MQTT 5.0': { transport: Transport.MQTT, options: { url, protocolVersion: 5 } },
};

for (const [name, service] of Object.entries(SERVICES)) {
  it(`asks, answers and tells by ${name}`, async () => {
    const app = await NestFactory.createMicroservice(App, { ...service, logger: false });
    await app.listen();
    const client = ClientProxyFactory.create(service);
    await client.connect();
    const ask = (pattern, data) => firstValueFrom(client.send(pattern, data).pipe(toArray()));
    // by MQTT one after the other: NestJS drops the subscription of a pattern when its last open question is answered, which may
    // be before the next one has been asked
    const answers = [];
    if (service.transport === Transport.MQTT) for (let n = 0; n < 100; n++) answers.push(await ask('sum', [n, 1]));
    else answers.push(...await Promise.all(Array.from({ length: 100 }, (_, n) => ask('sum', [n, 1]))));
    assert.deepStrictEqual(answers.map(([answer]) => answer), Array.from({ length: 100 }, (_, n) => n + 1));
    assert.deepStrictEqual(await ask('each', [4, 5, 6]), [4, 5, 6]);
    await assert.rejects(ask('fail', {}));
    await firstValueFrom(client.emit('log', { name }), { defaultValue: null });
    while (arrived.length === 0) await new Promise((done) => setTimeout(done, 10));
    assert.deepStrictEqual(arrived.pop(), { name });
    await client.close();
    await app.close();
  });
}
