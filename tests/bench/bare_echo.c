/* SPDX-License-Identifier: Apache-2.0 */
/* The bare echo. See bare_echo.h. */
#include "bare_echo.h"

static void *new_socket(void *context, int type)
{
    void *s = zmq_socket(context, type);
    int zero = 0;

    ECHO_CHECK(s);
    zmq_setsockopt(s, ZMQ_SNDHWM, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_RCVHWM, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    return s;
}

void *echo_bind(void *context, const char *endpoint, bool curve, echo_place_t *place_out)
{
    void *s = new_socket(context, ZMQ_ROUTER);
    size_t size = sizeof(place_out->endpoint);
    char secret[41];
    int one = 1;

    *place_out = (echo_place_t){0};
    if (curve) {
        ECHO_CHECK(zmq_curve_keypair(place_out->key, secret) == 0);
        zmq_setsockopt(s, ZMQ_CURVE_SERVER, &one, sizeof(one));
        zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, secret, sizeof(secret));
    }
    ECHO_CHECK(zmq_bind(s, endpoint) == 0);
    ECHO_CHECK(zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, place_out->endpoint, &size) == 0);
    return s;
}

void echo_serve(void *router)
{
    zmq_msg_t id, body;

    zmq_msg_init(&id);
    zmq_msg_init(&body);
    for (;;) {
        ECHO_CHECK(zmq_msg_recv(&id, router, 0) >= 0);
        ECHO_CHECK(zmq_msg_recv(&body, router, 0) >= 0);
        ECHO_CHECK(zmq_msg_send(&id, router, ZMQ_SNDMORE) >= 0);
        ECHO_CHECK(zmq_msg_send(&body, router, 0) >= 0);
    }
}

void *echo_dial(void *context, const echo_place_t *place)
{
    void *s = new_socket(context, ZMQ_DEALER);
    char public_key[41], secret[41];

    if (place->key[0]) {
        ECHO_CHECK(zmq_curve_keypair(public_key, secret) == 0);
        zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, place->key, sizeof(place->key));
        zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, public_key, sizeof(public_key));
        zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, secret, sizeof(secret));
    }
    ECHO_CHECK(zmq_connect(s, place->endpoint) == 0);
    return s;
}

void echo_calls(void *dealer, int count)
{
    char data[ECHO_RECORD] = {0};

    for (int i = 0; i < count; i++) {
        ECHO_CHECK(zmq_send(dealer, data, sizeof(data), 0) == sizeof(data));
        ECHO_CHECK(zmq_recv(dealer, data, sizeof(data), 0) == sizeof(data));
    }
}

void echo_batches(void *dealer, int count)
{
    char data[ECHO_RECORD] = {0};

    for (int done = 0; done < count; done += ECHO_BATCH) {
        for (int i = 0; i < ECHO_BATCH; i++)
            ECHO_CHECK(zmq_send(dealer, data, sizeof(data), 0) == sizeof(data));
        for (int i = 0; i < ECHO_BATCH; i++)
            ECHO_CHECK(zmq_recv(dealer, data, sizeof(data), 0) == sizeof(data));
    }
}
