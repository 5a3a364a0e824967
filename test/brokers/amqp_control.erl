%% Answers questions about a broker that AMQP cannot: one line of words in, one line out.
-module(amqp_control).
-export([main/0]).

main() -> loop(list_to_atom(os:getenv("CONTROL_NODE"))).

loop(Node) ->
    case io:get_line("") of
        Line when is_list(Line) ->
            Words = [list_to_binary(W) || W <- string:tokens(string:trim(Line), " ")],
            io:format("~s~n", [answer(catch do(Node, Words))]),
            loop(Node);
        _ -> halt()
    end.

answer({ok, Text}) -> Text;
answer(Other) -> io_lib:format("! ~0p", [Other]).

do(Node, [<<"vhost">>, Name, User]) ->
    ok = rpc:call(Node, rabbit_vhost, add, [Name, <<"test">>]),
    ok = rpc:call(Node, rabbit_auth_backend_internal, set_permissions, [User, Name, <<".*">>, <<".*">>, <<".*">>, <<"test">>]),
    {ok, "ok"};
do(Node, [<<"user">>, Name, Password]) ->
    _ = rpc:call(Node, rabbit_auth_backend_internal, add_user, [Name, Password, <<"test">>]),
    {ok, "ok"};
do(Node, [<<"alarm">>, <<"on">>]) ->
    ok = rpc:call(Node, rabbit_alarm, set_alarm, [{{resource_limit, memory, Node}, []}]),
    {ok, "ok"};
do(Node, [<<"alarm">>, <<"off">>]) ->
    ok = rpc:call(Node, rabbit_alarm, clear_alarm, [{resource_limit, memory, Node}]),
    {ok, "ok"};
do(Node, [<<"count">>, Vhost, Queue]) ->
    case rpc:call(Node, rabbit_amqqueue, lookup, [{resource, Vhost, queue, Queue}]) of
        {ok, Q} ->
            [{messages, All}, {messages_unacknowledged, Unacknowledged}] = rpc:call(Node, rabbit_amqqueue, info, [Q, [messages, messages_unacknowledged]]),
            {ok, io_lib:format("~p ~p", [All, Unacknowledged])};
        {error, not_found} -> {ok, "0 0"}
    end.
