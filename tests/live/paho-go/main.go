// Paho's clients for Go at the server that the arguments name: address, port, version. It prints a line for each thing it
// sees. Version 5 is paho.golang, versions 3 and 4 are paho.mqtt.golang.
package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session/state"
	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const patience = 60 * time.Second

var address, version = os.Args[1] + ":" + os.Args[2], os.Args[3]

func check(err error) {
	if err != nil {
		panic(err)
	}
}

type client interface {
	connect(clean bool) bool
	subscribe(filter string, qos byte) byte
	unsubscribe(filter string)
	publish(topic string, qos byte, retain bool, payload []byte)
	disconnect()
	cut()
	take()
}

type messages chan string

func (m messages) put(topic string, qos byte, retain bool, payload []byte, more string) {
	said := string(payload)
	if len(payload) > 100 {
		said = fmt.Sprintf("%d octets", len(payload))
	}
	m <- strings.TrimSpace(fmt.Sprintf("%s %d %t %s%s", topic, qos, retain, said, more))
}

func (m messages) take() {
	select {
	case message := <-m:
		fmt.Println(message)
	case <-time.After(patience):
		panic("no message")
	}
}

// ---- 3.1 and 3.1.1

type client4 struct {
	messages
	options *mqtt.ClientOptions
	client  mqtt.Client
	network net.Conn
}

func done(token mqtt.Token) {
	if !token.WaitTimeout(patience) {
		panic("no answer")
	}
	check(token.Error())
}

func newClient4(identifier string, will string) *client4 {
	c := &client4{messages: make(messages, 100)}
	c.options = mqtt.NewClientOptions().AddBroker("tcp://" + address).SetClientID(identifier).SetAutoReconnect(false)
	c.options.SetProtocolVersion(uint(version[0] - '0'))
	c.options.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
		var err error
		c.network, err = net.Dial("tcp", address)
		return c.network, err
	})
	c.options.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
		c.put(m.Topic(), m.Qos(), m.Retained(), m.Payload(), "")
	})
	if will != "" {
		c.options.SetWill(will, "gone", 1, true)
	}
	return c
}

func (c *client4) connect(clean bool) bool {
	if c.client == nil {
		c.client = mqtt.NewClient(c.options.SetCleanSession(clean))
	}
	token := c.client.Connect().(*mqtt.ConnectToken)
	done(token)
	return token.SessionPresent()
}

func (c *client4) subscribe(filter string, qos byte) byte {
	token := c.client.Subscribe(filter, qos, nil).(*mqtt.SubscribeToken)
	done(token)
	return token.Result()[filter]
}

func (c *client4) unsubscribe(filter string) { done(c.client.Unsubscribe(filter)) }

func (c *client4) publish(topic string, qos byte, retain bool, payload []byte) {
	done(c.client.Publish(topic, qos, retain, payload))
}

func (c *client4) disconnect() { c.client.Disconnect(1000) }

func (c *client4) cut() { check(c.network.Close()) }

// ---- 5.0

type client5 struct {
	messages
	identifier, will string
	session          *state.State
	client           *paho.Client
	network          net.Conn
}

func (c *client5) connect(clean bool) bool {
	var err error
	c.network, err = net.Dial("tcp", address)
	check(err)
	c.client = paho.NewClient(paho.ClientConfig{
		ClientID: c.identifier, Conn: c.network, Session: c.session, PacketTimeout: patience,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
			m, more := r.Packet, ""
			if p := m.Properties; p.ContentType != "" {
				more = " " + p.ContentType + " " + p.ResponseTopic + " " + string(p.CorrelationData)
				for _, user := range p.User {
					more += " " + user.Key + "=" + user.Value
				}
			}
			c.put(m.Topic, m.QoS, m.Retain, m.Payload, more)
			return true, nil
		}},
	})
	expiry := uint32(600)
	if clean {
		expiry = 0
	}
	connect := &paho.Connect{ClientID: c.identifier, KeepAlive: 60, CleanStart: clean,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &expiry}}
	if c.will != "" {
		connect.WillMessage = &paho.WillMessage{Topic: c.will, QoS: 1, Retain: true, Payload: []byte("gone")}
	}
	answer, err := c.client.Connect(context.Background(), connect)
	check(err)
	return answer.SessionPresent
}

func (c *client5) subscribe(filter string, qos byte) byte {
	answer, err := c.client.Subscribe(context.Background(),
		&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}})
	check(err)
	return answer.Reasons[0]
}

func (c *client5) unsubscribe(filter string) {
	_, err := c.client.Unsubscribe(context.Background(), &paho.Unsubscribe{Topics: []string{filter}})
	check(err)
}

func (c *client5) send(message *paho.Publish) {
	_, err := c.client.Publish(context.Background(), message)
	check(err)
}

func (c *client5) publish(topic string, qos byte, retain bool, payload []byte) {
	c.send(&paho.Publish{Topic: topic, QoS: qos, Retain: retain, Payload: payload})
}

func (c *client5) describe(topic string) {
	properties := &paho.PublishProperties{ContentType: "text/plain", ResponseTopic: "answers", CorrelationData: []byte("c1")}
	properties.User.Add("k", "1").Add("k", "2")
	c.send(&paho.Publish{Topic: topic, QoS: 1, Payload: []byte("described"), Properties: properties})
}

func (c *client5) disconnect() {
	check(c.client.Disconnect(&paho.Disconnect{ReasonCode: 0}))
	<-c.client.Done()
}

func (c *client5) cut() { check(c.network.Close()) }

// ---- the same for all

func newClient(identifier string, will string) client {
	if version == "5" {
		return &client5{messages: make(messages, 100), identifier: identifier, will: will, session: state.NewInMemory()}
	}
	return newClient4(identifier, will)
}

func main() {
	publisher, subscriber, late := newClient("publisher", ""), newClient("subscriber", ""), newClient("late", "")
	for _, c := range []client{publisher, subscriber, late} {
		fmt.Println("present", c.connect(true))
	}

	for qos := byte(0); qos < 3; qos++ {
		fmt.Println("granted", subscriber.subscribe(fmt.Sprintf("q%d/#", qos), qos))
	}
	for granted := 0; granted < 3; granted++ {
		for qos := byte(0); qos < 3; qos++ {
			for n := 0; n < 10; n++ {
				publisher.publish(fmt.Sprintf("q%d/é", granted), qos, false, []byte(fmt.Sprintf("m%d", n)))
			}
			for n := 0; n < 10; n++ {
				subscriber.take()
			}
		}
	}
	publisher.publish("q2/large", 2, false, make([]byte, 300_000))
	subscriber.take()
	subscriber.unsubscribe("q1/#")
	publisher.publish("q1/x", 1, false, []byte("not for you"))
	publisher.publish("q2/x", 1, false, []byte("for you"))
	subscriber.take()
	if c, ok := publisher.(*client5); ok {
		c.describe("q2/described")
		subscriber.take()
	}

	publisher.publish("r", 1, true, []byte("kept"))
	subscriber.subscribe("r", 1)
	subscriber.take()
	publisher.publish("r", 1, true, []byte("new"))
	subscriber.take()
	publisher.publish("r", 1, true, nil)
	subscriber.take()
	late.subscribe("r", 1)
	publisher.publish("r", 1, false, []byte("after"))
	late.take()
	subscriber.take()

	dying := newClient("dying", "w")
	dying.connect(true)
	subscriber.subscribe("w", 1)
	dying.cut()
	subscriber.take()
	late.subscribe("w", 1)
	late.take()
	leaving := newClient("leaving", "v")
	leaving.connect(true)
	subscriber.subscribe("v", 1)
	leaving.disconnect()
	publisher.publish("v", 1, false, []byte("no will"))
	subscriber.take()

	keeper := newClient("keeper", "")
	fmt.Println("present", keeper.connect(false))
	keeper.subscribe("s/#", 2)
	keeper.disconnect()
	for n := 0; n < 10; n++ {
		publisher.publish("s/1", 1, false, []byte(fmt.Sprintf("m%d", n)))
		publisher.publish("s/2", 2, false, []byte(fmt.Sprintf("m%d", n)))
	}
	fmt.Println("present", keeper.connect(false))
	for n := 0; n < 20; n++ {
		keeper.take()
	}
	publisher.publish("s/2", 2, false, []byte("again"))
	keeper.take()
	for _, c := range []client{keeper, late, subscriber, publisher} {
		c.disconnect()
	}
	fmt.Println("done")
}
