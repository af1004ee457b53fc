// rhea against a server: messages there and back, every outcome, drain, a refused link, a large message.
// Run: node rhea.js PORT. It ends with "done".
const assert = require('assert');
const rhea = require('rhea');

const container = rhea.create_container();
const connection = container.connect({port: Number(process.argv[2]), host: '127.0.0.1', username: 'u', reconnect: false});
const COUNT = 300;

function once(emitter, name) {
    return new Promise((resolve) => emitter.once(name, resolve));
}

async function main() {
    await once(connection, 'connection_open');
    const sender = connection.open_sender('/queues/rhea');
    await once(sender, 'sendable');
    let accepted = 0;
    const all = new Promise((resolve) => sender.on('accepted', () => ++accepted === COUNT && resolve()));
    for (let n = 0; n < COUNT; n++) {
        while (!sender.sendable()) await once(sender, 'sendable');
        sender.send({body: rhea.message.data_section(Buffer.from(n === 7 ? 'x'.repeat(200000) : String(n)))});
    }
    await all;

    const receiver = connection.open_receiver({source: '/queues/rhea', autoaccept: false, credit_window: 0});
    const got = [];
    let released = false, modified = false;
    receiver.on('message', (context) => {
        const body = context.message.body.content.toString();
        if (body === '0' && !released) {
            released = true;
            context.delivery.release();
        } else if (body === '0' && !modified) {
            modified = true;
            context.delivery.modified({delivery_failed: true});
        } else if (body === '1') {
            context.delivery.reject({condition: 'amqp:internal-error'});
            got.push(body);
        } else {
            context.delivery.accept();
            got.push(body);
        }
        // rhea 3 writes one disposition for two deliveries of one turn, with the first one's outcome (write_dispositions), so
        // the first two messages, which have other outcomes than accepted, come alone
        if (got.length < COUNT) receiver.add_credit(body === '1' ? 20 : 1);
    });
    receiver.add_credit(1);
    while (got.length < COUNT) await once(receiver, 'message');
    assert.strictEqual(new Set(got).size, COUNT);

    receiver.drain = true;
    receiver.add_credit(5);
    await once(receiver, 'receiver_drained');

    const filtered = connection.open_sender('/queues/filtered');
    for (let n = 0; n < 6; n++) {
        while (!filtered.sendable()) await once(filtered, 'sendable');
        filtered.send({body: n, application_properties: {n, colour: n % 2 ? 'red' : 'blue'}});
    }
    const browser = connection.open_receiver({source: {address: '/queues/filtered', distribution_mode: 'copy'}});
    const seen = [];
    browser.on('message', (context) => seen.push(context.message.body));
    while (seen.length < 6) await once(browser, 'message');
    assert.deepStrictEqual(seen, [0, 1, 2, 3, 4, 5]);
    browser.close();
    const filter = rhea.filter.selector("colour = 'red' AND n > 1");
    const chosen = connection.open_receiver({source: {address: '/queues/filtered', filter}});
    const red = [];
    chosen.on('message', (context) => red.push(context.message.body));
    while (red.length < 2) await once(chosen, 'message');
    assert.deepStrictEqual(red, [3, 5]);
    assert.ok(chosen.source.filter['jms-selector'] || chosen.source.filter.selector);
    const invalid = connection.open_receiver({source: {address: '/queues/filtered', filter: rhea.filter.selector('colour =')}});
    const {receiver: bad} = await once(invalid, 'receiver_error');
    assert.strictEqual(bad.error.condition, 'amqp:invalid-field');

    const dynamic = connection.open_receiver({source: {dynamic: true}});
    await once(dynamic, 'receiver_open');
    const back = connection.open_sender(dynamic.source.address);
    await once(back, 'sendable');
    back.send({body: 'back'});
    const {message} = await once(dynamic, 'message');
    assert.strictEqual(message.body, 'back');

    const refused = connection.open_sender('/nowhere/x');
    const {sender: failed} = await once(refused, 'sender_error');
    assert.strictEqual(failed.error.condition, 'amqp:not-found');

    connection.close();
    await once(connection, 'connection_close');
    console.log('done');
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
